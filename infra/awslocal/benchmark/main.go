package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

func main() {
	serveAt := flag.String("serve", "", "only serve awslocal on this address")
	data := flag.String("data", "", "with -serve: the data folder")
	npm := flag.String("npm", "infra/awslocal/conformance/testdata/npm/node_modules", "where dynalite is installed")
	clients := flag.Int("clients", 32, "number of concurrent clients")
	duration := flag.Duration("for", 2*time.Second, "how long each cell is measured in each round")
	rounds := flag.Int("rounds", 3, "number of rounds (a cell shows their median)")
	stored := flag.Int("queued", 1_000_000, "messages and items in the larger server of the last table (0 skips that table)")
	flag.Parse()
	var err error
	if *serveAt != "" {
		err = serve(*serveAt, *data)
	} else {
		err = run(*npm, *clients, *duration, *rounds, *stored)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

// serve serves awslocal until it is interrupted.
func serve(addr, data string) error {
	cloud, err := awslocal.Open(awslocal.Config{Data: data})
	if err != nil {
		return err
	}
	server, err := cloud.Listen(addr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	<-ctx.Done()
	return errors.Join(server.Close(), cloud.Close())
}

func run(npm string, clients int, duration time.Duration, rounds, stored int) error {
	dir, err := os.MkdirTemp("", "awslocal-benchmark-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	servers, err := startAll(npm, dir)
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}

	fmt.Printf("starting and idling\n\n%-18s %14s %14s\n", "", "first answer", "memory, idle")
	for _, s := range servers {
		memory, err := s.residentMB()
		if err != nil {
			return err
		}
		fmt.Printf("%-18s %11.0f ms %11.0f MB\n", s.name, float64(s.ready.Microseconds())/1000, memory)
	}

	fmt.Printf("\noperations a second, %d clients, median of %d rounds of %v\n\n", clients, rounds, duration)
	measured := make(map[*server]map[string][]float64)
	for _, s := range servers {
		measured[s] = make(map[string][]float64)
		if err := s.prepare(clients); err != nil {
			return fmt.Errorf("preparing %s: %w", s.name, err)
		}
	}
	for range rounds {
		for _, w := range workloads {
			for _, s := range servers {
				if !w.on(s) {
					continue
				}
				r, err := w.measure(s, clients, duration)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", w.name, s.name, err)
				}
				measured[s][w.name] = append(measured[s][w.name], r)
			}
		}
	}
	printRates(servers, measured)
	for _, s := range servers {
		s.stop() // The growth table measures only awslocal.
	}
	if stored > 0 {
		return printGrowth(stored, clients, rounds, duration)
	}
	return nil
}

// printRates prints a row for each server. For each server other than awslocal, it also prints awslocal's rate divided
// by that server's rate.
func printRates(servers []*server, measured map[*server]map[string][]float64) {
	fmt.Printf("%-18s", "")
	for _, w := range workloads {
		fmt.Printf(" %24s", w.name)
	}
	fmt.Println()
	for _, s := range servers {
		fmt.Printf("%-18s", s.name)
		for _, w := range workloads {
			rates := measured[s][w.name]
			if len(rates) == 0 {
				fmt.Printf(" %24s", "-")
				continue
			}
			cell := fmt.Sprintf("%.0f", median(rates))
			if !s.ours() {
				for _, ours := range servers[:2] {
					cell += fmt.Sprintf("  %.1fx", median(measured[ours][w.name])/median(rates))
				}
			}
			fmt.Printf(" %24s", cell)
		}
		fmt.Println()
	}
	fmt.Printf("\nThe factors after the other servers' figures: awslocal's rate divided by theirs, in memory and with --data.\n")
}

func median(values []float64) float64 {
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare)
	return sorted[len(sorted)/2]
}

// ours reports whether the server is awslocal.
func (s *server) ours() bool { return s.name == inMemory || s.name == onDisk }

const (
	inMemory = "awslocal"
	onDisk   = "awslocal --data"
)

// awslocalCommand returns the command line that runs awslocal on a port, with a data folder if `dir` is set.
func awslocalCommand(self, dir string) func(port string) []string {
	return func(port string) []string {
		return []string{self, "-serve", "127.0.0.1:" + port, "-data", dir}
	}
}

// startAll starts awslocal, in memory and with a data folder, and every other emulator that
// is installed.
func startAll(npm, dir string) ([]*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	npm, err = filepath.Abs(npm)
	if err != nil {
		return nil, err
	}
	type candidate struct {
		server  server
		needs   string // the file or the command that the server needs
		command func(port string) []string
	}
	candidates := []candidate{
		{server{name: inMemory, sqs: true, dynamo: true}, self, awslocalCommand(self, "")},
		{server{name: onDisk, sqs: true, dynamo: true}, self, awslocalCommand(self, dir)},
		{server{name: "moto_server", sqs: true, dynamo: true}, "moto_server", func(port string) []string {
			return []string{"moto_server", "-H", "127.0.0.1", "-p", port}
		}},
		{server{name: "dynalite", dynamo: true}, filepath.Join(npm, "dynalite/cli.js"), func(port string) []string {
			return []string{"node", filepath.Join(npm, "dynalite/cli.js"), "--host", "127.0.0.1", "--port", port, "--createTableMs", "0"}
		}},
	}
	var servers []*server
	for _, c := range candidates {
		if _, err := exec.LookPath(c.needs); err != nil {
			if _, err := os.Stat(c.needs); err != nil {
				fmt.Printf("skipped (not installed): %s\n", c.server.name)
				continue
			}
		}
		port, err := freePort()
		if err != nil {
			return servers, err
		}
		s := c.server
		if err := s.start(port, c.command(strconv.Itoa(port))...); err != nil {
			return servers, err
		}
		servers = append(servers, &s)
	}
	return servers, nil
}
