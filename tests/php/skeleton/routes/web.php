<?php

use App\Http\Controllers\VoteController;
use Illuminate\Support\Facades\Route;

Route::post('/servers/{server}/votes', [VoteController::class, 'store']);
