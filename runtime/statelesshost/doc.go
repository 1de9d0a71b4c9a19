// Package statelesshost runs a machine of github.com/qmuntal/stateless on this runtime, with its queue, store,
// durable timers, parking and Step Functions callbacks.
//
// One configured machine from NewStateMachine serves all instances at once: the context.Context that stateless passes
// to guards and actions contains the state and the data of the current instance. For code that builds a machine
// around a loaded entity, use Config.Build.
//
// To fire a trigger from an action, call Fire. It adds the trigger to the instance's queue, so that one transition ends
// before the next begins. Actions must not have side effects that cannot be undone, because the runtime retries the
// event after a failed or interrupted step. SendTo, SendAfter, Emit, Log and Resolve request effects, which the runtime
// performs once the step is stored.
//
// docs/stateless.md shows how to migrate an existing machine, and lists the features that a hosted machine lacks.
package statelesshost
