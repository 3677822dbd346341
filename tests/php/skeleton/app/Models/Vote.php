<?php

namespace App\Models;

use Illuminate\Database\Eloquent\Model;

class Vote extends Model
{
    public $timestamps = false;
    protected $guarded = [];

    /** The service does not count this vote. */
    public static function takeBack(array $vote): void
    {
        self::where('server_id', $vote['server_id'])->where('ip', $vote['ips'][0])->where('voted_at', $vote['voted_at'])->delete();
    }
}
