package command

import (
	"cmp"

	"github.com/alecthomas/kong"
)

// operationHelp is a part of the help of the commands that change one instance.
const operationHelp = `

The command writes the item on condition that its revision has not changed, and then sends the instance a message, so that
a consumer performs the effects. If the instance waits for a service's retry, this happens only when the retry is due. Only
AWS permissions on the table allow this change: no event and no HTTP request can do it. The machines of this program must be
those of the consumer. The history of the instance keeps who made the change, and why.
--dry-run shows states, actions, effects and values, and writes nothing.`

// describe sets the help of the node's commands.
func describe(node *kong.Node) {
	for _, child := range node.Children {
		child.Detail = cmp.Or(details[child.Path()], child.Detail)
		describe(child)
	}
}

// details are the help texts of the commands, which follow their summaries in commandLine. Each ends with examples.
var details = map[string]string{
	"dev": `Runs the same handlers as on AWS. They get the same events over the same wire protocols. Only the services are simulated:
they print what they would do.

The AWS endpoint serves SQS, DynamoDB, EventBridge, its Scheduler and Step Functions, and returns an error for anything that it
does not support. https://github.com/settle-run/settle/blob/main/docs/awslocal.md lists both. Point any SDK at it with
AWS_ENDPOINT_URL, and the aws CLI with --endpoint-url.

With --data, every change is on disk before it is acknowledged. After Ctrl-C, a crash or a kill, settle dev on the same
folder continues with all instances, schedules and executions. Generated secrets are kept in its file secrets.json, which
only you can read. They are used whenever you give none. Without --data, nothing survives Ctrl-C.

Both ports accept only requests for localhost or a loopback address. Otherwise a web page could bind its own name to
127.0.0.1, and read and change everything. If a container reaches this machine under another name, allow the name with
--allow-host.

With --clock virtual, the queues, schedules, executions, consumer and gateway share a virtual clock. It runs at the real rate,
and settle clock advance 72h moves it forward: the timers of three days fire in a moment, in order. With --data, the folder
keeps the clock. Once you have advanced it, the folder needs --clock virtual. --consumer cannot be used with it, because the
executable reads the real time.

With --consumer, settle dev runs the executable that you deploy, in --concurrency processes. It kills a process at its
timeout, and restarts a process that has ended. As environment variables, each process gets the settings that its template
sets on AWS, the settings from the flags of machines, and generated keys, such as the key for the codes of signup. It
inherits no variables from this shell. To set a variable yourself, use --consumer-env SETTLE_SIGNUP_CODE_KEY=...

The log of the executable is printed unchanged. Unlike on AWS, it contains payloads, because simulated services show nothing
else. To leave them out, use --consumer-env SETTLE_LOG_PAYLOADS=off.

With --inspect, tools for XState follow the instances: see https://github.com/settle-run/settle/blob/main/docs/inspector.md

  settle dev
  settle dev --data ~/.settle --function-timeout 15s
  settle dev --clock virtual
  settle dev --allow-host host.docker.internal
  settle dev --aws-port 0 --consumer ./bootstrap --consumer-env SETTLE_LOG_LEVEL=debug`,
	"clock": `Without a command, shows the time.

  settle clock
  settle clock advance 72h`,
	"clock show": `Shows the time of the settle dev at $AWS_ENDPOINT_URL, and how far it is ahead of the real time.

  settle clock show
  settle clock -o json | jq -r .now`,
	"clock advance": `The clock goes from one due time to the next: a timer, a delayed or retried message, a wait of an execution. At each, it
stands still until the consumer is idle. So a timer that another timer starts also fires in time. The command returns when
all work of the passed time is done. It waits for services that run, for example for a service that calls a slow API.

The clock stops at a whole second, because SQS and Scheduler count whole seconds. Ctrl-C ends the command. The clock then
keeps the time that it has reached.

Only settle dev --clock virtual has a clock that can be advanced. The command never calls AWS.

  settle clock advance 72h
  settle clock advance 90m -o json`,
	"send": `The event is validated first. An invalid event is refused with exit code 4 and is not queued. Unknown payload keys
are ignored, with a warning. The command returns once the event is queued.

With --wait, the command returns once the event has been applied and the instance is settled, is done, or has the tag. If
the event is parked, or the instance ends in another way, the exit code is 1. If --timeout runs out first, it is 5.

The command reads the instance every 100 ms at first, then less often, down to every two seconds. It can miss a tag that
the instance has only briefly. While the instance does not exist, the command also looks for the event in the dead-letter
queue now and then. If your chart has tags named "settled" or "done", use settle watch to see them.

  settle send signup/42 SIGN_UP email=ada@example.com name=Ada
  settle send job/run-1-job-2 queued run_id:=1 job_id:=2 'labels:=["self-hosted"]'
  settle send signup/42 VERIFY --id verify-1 --json '{"code": "123456"}'
  settle send signup/42 CANCEL --wait done --timeout 10s
  settle send --alias enricher/job-7 FAILED error=lost`,
	"get": `Shows the instance as last stored: its states, the events that it accepts next, timers, services, children, the tasks and
workflows that it waits for, the event parked last, permanently failed effects, and its last transitions. Task tokens are
never shown.

  settle get signup/42
  settle get --alias enricher/job-7
  settle get signup/42 -o json | jq .context`,
	"list": `If the table has the index by_state, list finds instances by the index and sorts them by machine, state and ID. With
--machine, or --machine and --state, it reads only that part of the index. Each instance is shown as the table has it. But
the index is eventually consistent: an instance that has just started or changed its state may be missing, and so is an
instance without any event since the index was switched on. To miss none, use --consistent.

Without the index, or with --consistent, list reads the whole table, even with filters. In a large table that takes time
and read capacity. The instances are sorted by name.

If there are more instances than --limit, list prints a --cursor to continue with. Without the index, or with
--consistent, it ends with exit code 1 instead.

  settle list --machine signup --state unverified
  settle list --tag urgent --status active
  settle list -o json | jq -r '.instances[].instance'`,
	"history": `The item of an instance keeps its last 20 transitions. To keep another number, set SETTLE_HISTORY_MAX for the consumer, or
durable.Config.HistoryMax in a loop of your own. Events, timers and the ends of services are included, ignored ones too.
JSON output has one transition a line.

For older transitions, search the log of the consumer. It has a line "event applied" for each event and, at the level debug
(SETTLE_LOG_LEVEL), a line "transition" for each transition.

  settle history signup/42
  settle history signup/42 -o json | jq -r .event`,
	"watch": `Prints the state of the instance and then each transition once it is stored, until the instance ends or you press Ctrl-C.
JSON output has one transition a line, and nothing else.

watch reads the item consistently: every 100 ms after a change, then less often, down to every two seconds. If more
transitions happen between two reads than the item keeps, watch misses some and says so. If a read after the first one
fails despite the retries of the SDK, watch prints the error and tries again: after a second at first, after 30 seconds at
most. If standard output is closed, as with head -1, watch ends at the next read.

With --machine, watch follows all active instances of a machine, up to 1,000, until Ctrl-C. --state and --tag narrow them
down. Each look reads all of them: by the index by_state every two seconds or, without the index, by reading the whole
table every ten seconds. After the first look, watch prints how much read capacity a look takes. An instance that starts
and ends between two looks is not seen. An instance that the first look did not find is shown with its stored history.

  settle watch signup/42
  settle watch signup/42 -o json | jq -r '.to[]'
  settle watch --machine signup --every 5s`,
	"graph": `The format mermaid is a state diagram that GitHub renders in Markdown. The diagram of an instance is the chart of the version
that runs it, with the active states in the class current.

The format svg is a drawing for a browser, without further files. The drawing of an instance marks the active states and the
transitions in its history. --open writes the drawing to a temporary file and opens it.

The format xstate is an XState v5 machine config in JSON, for editors, front ends and settle simulate. It refers to actions,
guards and services by name. The config is the same for all instances.

-o applies to the list of machines only.

  settle graph
  settle graph signup > signup.mmd
  settle graph signup/42 --format svg > signup-42.svg
  settle graph signup/42 --open
  settle graph signup --format xstate > signup.json`,
	"console": `Serves a web console on a loopback port: each machine's chart with the number of instances in each state, each instance with
its chart, timeline, timers and context, and the parked events. Open pages follow the table. The header shows what that
costs. docs/console.md describes the pages, the permissions, and how to mount the console in a server of your own.

With --write, forms send events as settle send does, redrive and drop parked ones, and stop, terminate, move, keep and unkeep
instances. The history of a changed instance records your AWS identity. Without --write, the console only reads.

All users of this machine can reach the port, so use your own machine. Task tokens are never shown. settle dev serves the
console too, at /console/ of its gateway. That console can always write.

  settle console --open
  settle console --write
  settle console --table settle-prod --every 30s
  settle console --local --port 0`,
	"dlq": `An event that can never be applied is parked: moved to the dead-letter queue, with the reason and its source. SQS also moves
events there, without a reason, after too many receives.

To read a queue is to receive its messages. These commands receive all messages that the queue offers. When they end, they
return the messages that they have not deleted. Until then no other reader sees them. If a command is killed, they reappear
after five minutes. A FIFO queue offers at most the first ten events of each instance, and the next ones once you redrive or
drop these. redrive and drop continue until no more are offered.

  settle dlq list
  settle dlq redrive --instance signup/42`,
	"dlq list": `Events of one instance are listed in order. If the queue has more events than it offers, a note on standard error says so.

  settle dlq list
  settle dlq list --instance signup/42 -o json | jq -r '.[].message_id'`,
	"dlq show": `Shows the event with its payload, why it was parked, and where it came from. Task tokens are hidden.

  settle dlq show 5fea7756-0ea4-451a-a703-a558b933e274`,
	"dlq redrive": `Sends each event to the queue again, with its body, instance and attributes, and then deletes it from the dead-letter
queue. The events of an instance are sent in order. An event is applied once, however often you redrive it, as long as
fewer than 50 other events come in between (docs/guarantees.md). Redrive all events of an instance together, because later
events may depend on earlier ones.

Events that are parked again in the meantime stay, and are counted. If an event cannot be sent, the later events of its
instance stay too. Ctrl-C stops between two events, and the remaining ones stay.

  settle dlq redrive --instance signup/42
  settle dlq redrive 5fea7756-0ea4-451a-a703-a558b933e274
  settle dlq redrive --all
  settle dlq redrive --all --dead-letter-queue settle-delay-dlq --queue settle-delay`,
	"dlq drop": `Deletes the events permanently. This includes the events of an instance beyond the first ten, and events that are parked in
the meantime. If the queue has any events, drop asks for confirmation. Without a terminal, it requires --yes.

  settle dlq drop 5fea7756-0ea4-451a-a703-a558b933e274
  settle dlq drop --instance signup/42 --yes`,
	"stop": `Stop an active instance. Its exit actions run, its children stop, its timers end, and its aliases are released. Tasks that
wait for it fail with Settle.Stopped. Its parent receives error.child.ID. Its later events are ignored.

If the chart's code fails at the stop, use terminate.` + operationHelp + `

  settle stop order/7 --reason "ordered twice"
  settle stop order/7 --dry-run
  settle stop --alias enricher/job-7 --reason "job lost"`,
	"terminate": `Terminate an active instance without running any code of its chart, even if this program cannot read its version. Everything
else is as with stop. While no consumer can read the instance, its effects wait.` + operationHelp + `

  settle terminate order/7 --reason "exit action panics"`,
	"move": `Move an active instance to another state, change its context, or both. The instance leaves its states and enters the new one
as by a transition: exit and entry actions run, timers and services start. The nearest active ancestor of the new state
stays active, so the other regions of a parallel state keep their states. The new context applies before the move. A value
that the machine would not keep is refused.` + operationHelp + `

  settle move order/7 shipped --reason "sent by hand"
  settle move order/7 --set address.city=Bern --set attempts:=0 --dry-run
  settle move order/7 cancelled --patch '{"note": null}' --revision 12`,
	"forget": `Erase the data of an instance that has ended, for a person's request to be forgotten. An empty item replaces it for 14 days, so
that late messages cannot start the instance anew. Then DynamoDB deletes the empty item.

The command first finds and erases its ended children and their children, its aliases, its reserved event IDs, its items for
last sends, and its messages in the dead-letter queues. To find them, it reads the whole table, once for each generation of
children. If it is interrupted, run it again.

An instance that is active, owes effects or is kept is refused, and so is one with such a child. The output lists the places
where copies remain. The machines of this program must be those of the consumer.

  settle forget signup/42 --dry-run
  settle forget signup/42 --reason "request 2026-17"`,
	"lane": `Move an instance to another lane, a FIFO queue with a consumer of its own. No event is lost, and the order of the events
stays. The present lane first applies the events that it has. Until then, the other lane holds its events.` + operationHelp + `

  settle lane job/acme.42 bulk`,
	"keep": `Keep the item of an instance beyond its retention, as evidence or for a repair. This also works before the instance ends.` + operationHelp + `

  settle keep order/7 --reason "dispute 88"`,
	"unkeep": `End the effect of keep. If the instance has ended, its retention starts now.` + operationHelp + `

  settle unkeep order/7`,
	"bulk send":      bulkHelp + `  settle bulk send --machine order --tag urgent REMIND`,
	"bulk stop":      bulkHelp + `  settle bulk stop --machine order --state unpaid --older-than 720h --reason abandoned --dry-run`,
	"bulk terminate": bulkHelp + `  settle bulk terminate --machine order --state broken --yes`,
	"bulk move":      bulkHelp + `  settle bulk move --machine order --state packing packed --context 'warehouse = "B"'`,
	"bulk resume":    bulkHelp + `  settle bulk resume --machine order`,
	"bulk rearm":     bulkHelp + `  settle bulk rearm --machine order --older-than 72h`,
	"bulk lane":      bulkHelp + `  settle bulk lane bulk --machine job --context 'tenant = "acme"'`,
	"bulk keep":      bulkHelp + `  settle bulk keep --machine order --older-than 24h --reason audit`,
	"bulk unkeep":    bulkHelp + `  settle bulk unkeep --machine order --reason audit`,
	"bulk forget": `Forgets each ended instance that matches, as settle forget does. Instances that are active or already forgotten do not match.
The whole table is read once for all instances, and once for each generation of their children. The messages in the
dead-letter queues are deleted first. The journal names the instances, so delete it afterwards.

` + bulkHelp + `  settle bulk forget --machine signup --context 'email = "ada@example.com"' --reason "request 17"`,
	"resume": `An instance is unsettled while its services run. It stays unsettled if the chart fails on the result of a service, or if SQS
moves its event to the dead-letter queue after too many receives. An instance can also be left with effects that were
committed but not performed, or with workflow tasks that were not answered. In all these cases nothing happens until its
next event.

resume sends such an event: the firing of a timer that the instance does not have. The consumer first settles the instance
and performs its effects, and then skips the firing. If the instance is settled and nothing is left to do, resume sends
nothing.

While the queue retries an earlier event of the instance, this event waits behind it. If the instance cannot settle in
three tries, this event is parked with the reason. Drop it from the dead-letter queue. Redriving it does the same as
settle resume.

  settle resume signup/42
  settle resume signup/42 --wait settled --timeout 2m`,
	"rearm": `Rearm an instance after you restored its item from a backup, and before its next event. A restored instance counts its
steps from where the backup was, so it would use the IDs of earlier sends again, and receivers would drop them as duplicates.
Timers that fired since the backup would never fire again.

Rearming raises the count above every number used before, and asks again for the timers, aliases, tasks and executions that
the instance waits for. An instance that is done notifies its parent again. Rearming an instance that was not restored is
harmless.

Name one instance, or use --machine or --all. These two ask for confirmation, and without a terminal they need --yes. Naming
one instance also rearms its finished children.

If the FIFO queue is new, because the old one was deleted or is in a lost Region, pass --new-queue while the consumer is
stopped. A new queue numbers its messages anew. Without the flag, instances skip its events as duplicates.

The run reports items that it cannot read or store, continues, and ends with exit code 1. A run prints its stamp. If it is
interrupted, --resume continues it. The clock of this machine must be right.

docs/backups.md has the whole procedure.

  settle rearm signup/42
  settle rearm --machine signup --dry-run
  settle rearm --all --new-queue
  settle rearm --all --yes
  settle rearm --all --resume 1795165200000000`,
	"check": `Run check with a new build before you deploy it. It reads each stored snapshot with the machines of this build, and counts
the results:

  FIT      readable by the version that stored it
  MIGRATE  readable by a later version, through its migrations
  BREAK    unreadable: a state is gone, the context does not decode, a machine or a
           version is missing, or the item is damaged
  PARK     readable, but with a deferred event that this build would park

If an instance counts under BREAK or PARK, the exit code is 1. Instances that are done or stopped count too, because events may still arrive
for them. To skip them, use --status active.

check writes nothing to the table. It reads the whole table consistently, even with filters, which takes time and read
capacity. With --next, it also tries the next event of each instance, and the first event of a new instance of each machine.

  settle check
  settle check --machine signup --status active`,
	"migrate": `Instances migrate automatically: each one when its next event is applied, in the same write. There is nothing to start, so
migrate requires --dry-run. An instance without further events keeps its version. To migrate instances at a time of your
choice, send them an event that the chart handles without changing the state.

With --dry-run, migrate reads each stored instance as its next event would. It shows how many instances would migrate, by
machine, versions and state, and the first changes of one example each. It writes nothing. If no version can read an
instance, the exit code is 1, and settle check shows the reason. migrate reads the whole table consistently.

  settle migrate --dry-run
  settle migrate --dry-run --machine signup -o json`,
	"record": recordHelp,
	"replay": replayHelp,
	"export": `Writes one line of JSON for each instance: its name, revision and times, its aliases, and its snapshot, which an XState
front end can read. Task tokens are not included.

export reads the whole table, in no order. In a large table that takes time and read capacity. If an item cannot be read,
export reports it on standard error, continues, and ends with exit code 1.

  settle export > all.jsonl
  settle export --status done | jq -r '[.instance, .snapshot.output.outcome] | @tsv'`,
	"backup": `Writes each item of the table as one line of JSON, in the form of a full export of DynamoDB to S3 (DYNAMODB_JSON):
instances, aliases, reserved event IDs and last sends. The lines contain task tokens. Protect them like the table.

backup reads the table consistently, page by page, in no order. It is no snapshot of one moment: stop the consumer first, or
use an export to S3. The backup is complete if the exit code is 0.

  settle backup | gzip > settle.jsonl.gz
  settle backup --rate 500 > settle.jsonl`,
	"import": `Writes the items of a backup into a table, such as the empty table of a new stack. It reads the files of settle backup and of
a full export of DynamoDB to S3, also compressed with gzip.

import never changes an item that the table has, unless you pass --overwrite. If a run is interrupted, repeat it: items that
are already there are skipped. Items that differ are reported, and the exit code is 1. --dry-run compares and writes nothing.

Stop the consumer first, and rearm the instances afterwards. docs/recovery.md has the whole procedure.

  settle import settle.jsonl.gz --dry-run
  settle import AWSDynamoDB/*/data/*.json.gz --rate 1000
  aws s3 cp s3://backups/settle.jsonl.gz - | settle import - --yes`,
	"simulate": `Write one JSON object a line to standard input. Blank lines are skipped:

  {"type": "VERIFY", "code": "123456"}                 an event
  {"$advance": "5m"}                                   time passes, timers fire; also milliseconds
  {"type": "done.invoke.ID", "output": {"n": 1}}       a service returns
  {"type": "error.invoke.ID", "error": "no answer"}    a service fails
  {"type": "done.child.ID"}, error.child.ID            a child instance ends

XState's xstate.done.actor.ID and xstate.error.actor.ID work for both.

The output is one JSON object for the start, for each event and for each timer that fires, in order. Each object has value,
status, tags, actions (the names of the actions that ran), effects (the effects that the machine requested), timers (the
pending ones, the next one first), services and children (the running ones), and handled (false if the machine ignored the
event).

No code of the machine runs. Actions do nothing. Guards return true, or the value of --guard. Named delays take as long as
--delay says. Services and children end when a line says so. Their timeouts and retries are not simulated. The clock of
this machine is not read: the same input gives the same output.

  echo '{"type": "GO"}' | settle simulate machine.json --guard ready=false --clock 1h
  settle graph signup --format xstate > signup.json

A line that is not an event ends the simulation with exit code 4 and the line number. An event that the machine does not
name gets "handled": false, as in XState. A line may have up to 1016 KiB.`,
	"bench": benchHelp,
	"completion": `Completes commands, flags, values of flags, machines, their states and their event types. Instances are not completed,
because that would read the table at each key press.

  settle completion bash > ~/.local/share/bash-completion/completions/settle
  settle completion zsh > "${fpath[1]}/_settle"
  settle completion fish > ~/.config/fish/completions/settle.fish`,
	"version": `Prints the version of the module that the command was built from, the version of Settle if that is another module, the
commit if it was built from a checkout, and the version of Go.

  settle version`,
}
