"""The parts of `loadtest/run`, `writes`, `tails`, `cluster` and `waiting`, one noun a file.

paths       where things are               process     start, stop, pin, wait
options     the command line               usage       CPU time and memory out of /proc
control     the client of the control listener
service     vote-status, started and started again
redis       servers, Sentinels, a client   votes       votes as NDJSON, at once or at a rate
competitor  what each is to the rest       peers       how each is built and started
wrk, oha    the load generators            bench       criterion, bytes to bytes
answer      is what they answer right?     figures     medians, spreads, ratios
plan        what is timed, in what groups  fleet       the started competitors of a group
runner      alternating rounds             latency     scenario 5
memory      scenario 7                     target      measured beside "at most"
progress    one line on a terminal         machine     what it ran on
build       what has to be built first     session     a whole run
chart       SVG                            report      Markdown
pacer       reads at a fixed rate          tails       a table and charts of these
front       HAProxy before nodes, readers  propagation from one node to another
crowd       players who wait, and votes    prober      a good client at a fixed rate
table       measured beside asked
"""
