package command

// bulkHelp is the help of all bulk commands.
const bulkHelp = `The command first lists the instances that match the filter, by the index if the table has one, and counts them. Then it
asks, and processes each instance once, at a bounded rate. An instance that no longer matches when its turn comes is
skipped. An instance that fails is reported, and the others continue; the exit code is then 1.

The journal records the instances and their outcomes. To continue a run that was interrupted, repeat the same command. A
command with --reason adds the change to the history of each instance, with your reason and the stamp of the run.

`

const recordHelp = `The consumer logs each commit of a sample of the instances if its variable SETTLE_RECORD is set, such as SETTLE_RECORD=0.01.
settle dev --record FILE logs all of them. record reads these log lines, and plays the events on this build, without
services. Use the build that is deployed. record writes a line for each run: the state at its beginning, its events, and what
this build does with each. A run is a sequence of commits of one instance without a gap.

If this build takes another path than the consumer did, record leaves the run out and reports why. The usual causes are
another build, and a guard that reads a redacted value.

  settle record commits.jsonl > recording
  aws logs filter-log-events --log-group-name "$group" | settle record - > recording`

const replayHelp = `Run replay with a new build before you deploy it. It plays the events of a recording of settle record on the machines of this
build, without services, and compares the result of each event: the states, the status, the output, the services and timers
that begin, and the effects. Migrations run. It needs no AWS account.

The command prints each difference once, with the number of runs and one example. If any run differs, the exit code is 1.
To accept differences that you expect, store them with -o json, and pass the file to --accept. PARTIAL counts runs that replay
could not compare to their end because of an accepted difference.

  settle replay recording
  settle replay recording -o json > accepted.json
  settle replay recording --accept accepted.json`
