// Package statelesshost hosts a machine of github.com/qmuntal/stateless as a machine of this
// runtime: it gets the queue, the store, durable timers, parking and the token bridge.
//
// One configured machine, made by NewStateMachine, serves all instances at once: the state and the
// data of the instance that is stepped travel in the context.Context that stateless hands to guards
// and actions. Code that builds a machine around a loaded entity is hosted through Config.Build.
//
// An action that wants to fire calls Fire, which puts the trigger at the end of a queue of the
// instance's own: one transition is over before the next begins. Actions must not do what cannot be
// undone: an event whose step fails, or is cut off, is tried again. SendTo, SendAfter, Emit, Log and
// Resolve ask for effects, which are performed once the step is stored.
//
// docs/stateless.md shows how an existing machine is brought here, and what it does not get.
package statelesshost
