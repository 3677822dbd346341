<?php

namespace App\Models;

use Illuminate\Database\Eloquent\Model;

class Server extends Model
{
}
