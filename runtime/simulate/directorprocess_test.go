package simulate_test

import "time"

// kill ends a process. The caller holds d.mu.
func (d *director) kill(process string) {
	if !d.dead[process] {
		d.dead[process] = true
		if died := d.onDie[process]; died != nil {
			died()
		}
	}
}

// die ends a process that a service kills, or that has reached its timeout.
func (d *director) die(process, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dead[process] {
		d.unsorted = append(d.unsorted, stamp(time.Now())+process+" is "+why)
		d.counts[why]++
		d.kill(process)
	}
	d.wakeUp()
}

// wakeUp wakes the director.
func (d *director) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// stopFaults stops the faults.
func (d *director) stopFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = 0
	clear(d.outages)
	clear(d.denied)
	clear(d.partial)
	d.killing = time.Time{}
}

// state reports whether a process is dead (gone), and whether it is frozen (stuck).
func (d *director) state(process string) (gone, stuck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead[process], d.frozen[process].After(time.Now())
}

// wasFrozen reports whether a process was ever frozen.
func (d *director) wasFrozen(process string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, was := d.frozen[process]
	return was
}
