"""The parts of `loadtest/run`, one noun a file. A part imports only parts named above it, or beside it.

paths       where things are               options     the command line
process     start, stop, pin               usage       CPU time and memory out of /proc
competitor  what each is to the rest       control     the client of the control listener
redis       a Redis of a peer's own        peers       everything vote-status is compared with
service     vote-status, both engines      answer      is what they answer right?
wrk, oha    the load generators            writer      votes while reads are timed
figures     medians, spreads, ratios       bench       criterion, bytes to bytes
plan        what is timed, in what groups  fleet       the started competitors of a group
runner      alternating rounds             latency     scenario 5
memory      scenario 7                     target      measured beside "at most"
progress    one line on a terminal         machine     what it ran on
build       what has to be built first     session     a whole run
chart       SVG                            report      Markdown
"""
