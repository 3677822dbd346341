"""The parts of `loadtest/run`, one noun a file.

paths       where things are               process     start, stop, pin, wait
options     the command line               usage       CPU time and memory out of /proc
control     the client of the control listener
service     vote-status, started and started again
redis       servers, Sentinels, a client   votes       votes as NDJSON, at once or at a rate
plan        every scenario by its name     session     a whole run
competitor  the interface of each          peers       how each is built and started
answer      are their answers right?       fleet       the started competitors of a group
runner      alternating rounds             figures     medians, spreads, ratios
latency, memory                            scenarios beside the competitors that need more than wrk
writes, tails, waiting, full, restarts, nodes  scenarios of vote-status alone
wrk, oha    the load generators            bench       criterion, bytes to bytes
pacer       requests at a fixed rate       prober      a good client at a fixed rate
crowd       players who wait, and votes    front       HAProxy before nodes, readers
propagation from one node to another
target      measured beside "at most"      table       measured beside asked
progress    one line on a terminal         machine     the machine of a run
build       all builds before a run        chart       SVG
report      Markdown
"""
