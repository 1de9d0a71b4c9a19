package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// printGrowth prints how the cost of a call, the memory and the start-up time change with the number of stored messages
// and items. A nearly empty server and a filled server take turns, so that both see the same noise.
func printGrowth(stored, clients, rounds int, duration time.Duration) error {
	fmt.Printf("\noperations a second with %d messages queued and %d items stored, relative to a nearly empty server\n\n%-18s", stored, stored, "")
	for _, w := range workloads {
		fmt.Printf(" %24s", w.name)
	}
	fmt.Printf(" %14s %14s\n", "memory, many", "first answer")
	for _, name := range []string{inMemory, onDisk} {
		if err := growth(name, stored, clients, rounds, duration); err != nil {
			return err
		}
	}
	return nil
}

// growth prints a row of the table.
func growth(name string, stored, clients, rounds int, duration time.Duration) error {
	few, err := startOne(name, clients)
	if err != nil {
		return err
	}
	defer few.remove()
	many, err := startOne(name, clients)
	if err != nil {
		return err
	}
	defer many.remove()
	if err := many.fill(stored); err != nil {
		return fmt.Errorf("filling %s: %w", name, err)
	}
	rates := map[*server]map[string][]float64{few.server: {}, many.server: {}}
	for range rounds {
		for _, w := range workloads {
			for s, measured := range rates {
				r, err := w.measure(s, clients, duration)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", w.name, name, err)
				}
				measured[w.name] = append(measured[w.name], r)
			}
		}
	}
	fmt.Printf("%-18s", name)
	for _, w := range workloads {
		before, after := median(rates[few.server][w.name]), median(rates[many.server][w.name])
		fmt.Printf(" %24s", fmt.Sprintf("%.0f  %.2fx", after, after/before))
	}
	memory, err := many.residentMB()
	if err != nil {
		return err
	}
	fmt.Printf(" %11.0f MB", memory)
	if name != onDisk {
		fmt.Printf(" %14s\n", "-")
		return nil
	}
	// The file is still in the operating system's cache, as it is after a kill.
	if err := many.restart(); err != nil {
		return err
	}
	fmt.Printf(" %11.0f ms\n", float64(many.ready.Microseconds())/1000)
	return nil
}

// single is an awslocal server. `dir` is its data folder, if it has one.
type single struct {
	*server
	dir string
}

// startOne starts awslocal, in memory or with a data folder, and prepares its queue and table.
func startOne(name string, clients int) (single, error) {
	s := single{server: &server{name: name, sqs: true, dynamo: true}}
	if name == onDisk {
		dir, err := os.MkdirTemp("", "awslocal-benchmark-")
		if err != nil {
			return s, err
		}
		s.dir = dir
	}
	if err := s.restart(); err != nil {
		s.remove()
		return s, err
	}
	return s, s.prepare(clients)
}

// restart kills the server if it runs, starts it, and waits until it answers.
func (s single) restart() error {
	if s.process != nil {
		s.stop()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	return s.start(port, awslocalCommand(self, s.dir)(strconv.Itoa(port))...)
}

// remove stops the server and removes its folder.
func (s single) remove() {
	s.stop()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // The folder is in the system's temporary directory.
	}
}
