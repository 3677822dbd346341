<?php

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Schema;

return new class extends Migration {
    public function up(): void
    {
        Schema::create('servers', function (Blueprint $table): void {
            $table->id();
            $table->timestamps();
        });
        Schema::create('votes', function (Blueprint $table): void {
            $table->id();
            $table->unsignedInteger('server_id');
            $table->string('ip', 45);
            $table->bigInteger('voted_at');
        });
        DB::table('servers')->insert(['id' => 28]);
    }
};
