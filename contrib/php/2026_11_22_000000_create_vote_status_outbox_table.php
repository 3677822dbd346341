<?php

declare(strict_types=1);

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;

/** The table of VoteStatusOutbox.php 1.0; the next migration makes it that of 1.1. */
return new class extends Migration {
    public function up(): void
    {
        Schema::create('vote_status_outbox', function (Blueprint $table): void {
            $table->id();
            $table->unsignedInteger('server_id');
            $table->string('ip', 400);
            $table->bigInteger('voted_at');
            $table->bigInteger('added_at');
            $table->unsignedInteger('tries')->default(0);
            $table->string('last_error', 200)->nullable();
        });
    }

    public function down(): void
    {
        Schema::dropIfExists('vote_status_outbox');
    }
};
