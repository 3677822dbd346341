<?php

declare(strict_types=1);

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Schema;

/** The tables of VoteStatusOutbox.php from 1.1 on, as outbox.upgrade.sql has them. */
return new class extends Migration {
    public function up(): void
    {
        Schema::table('vote_status_outbox', function (Blueprint $table): void {
            $table->string('outcome', 20)->nullable();
        });
        DB::table('vote_status_outbox')->update(['tries' => 0]);
        Schema::create('vote_status_outbox_second', function (Blueprint $table): void {
            $table->bigInteger('server_id');
            $table->string('address', 45);
            $table->bigInteger('voted_at');
            $table->bigInteger('vote')->index('vote_status_outbox_second_vote');
            $table->primary(['server_id', 'address', 'voted_at']);
        });
    }

    public function down(): void
    {
        Schema::dropIfExists('vote_status_outbox_second');
        DB::table('vote_status_outbox')->whereNotNull('outcome')->delete();
        Schema::table('vote_status_outbox', function (Blueprint $table): void {
            $table->dropColumn('outcome');
        });
    }
};
