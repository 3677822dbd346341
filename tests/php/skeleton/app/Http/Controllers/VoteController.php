<?php

namespace App\Http\Controllers;

use App\Models\Server;
use App\Models\Vote;
use Illuminate\Http\Request;

class VoteController
{
}
