<?php

declare(strict_types=1);

/**
 * Sends the votes that the service does not have yet; for cron or a timer, once a minute. Copy it beside the site's
 * outbox.php, which returns the site's VoteStatusOutbox, for the voting page too. Prints nothing if no vote is left:
 * cron mails any output.
 */
['sent' => $sent, 'lost' => $lost, 'is_complete' => $isComplete, 'misconfigured' => $mistake]
    = (require __DIR__ . '/outbox.php')->replay();
if (!$isComplete) {
    $why = $mistake === null ? 'last_error in vote_status_outbox says why' : "misconfigured: $mistake";
    echo "vote-status: $sent sent, $lost lost, the rest is kept: $why\n";
    exit(1);
}
