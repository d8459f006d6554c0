package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stuck: how long the last answers of a slice may take.
const stuck = 10 * time.Second

// sidesRun: how several servers are loaded; seconds are of each.
type sidesRun struct {
	clients                int
	own                    bool
	every                  int
	samples                string
	warmUp, seconds, slice float64
	pids                   []string
}

// side: one server and what it has answered so far.
type side struct {
	calls   []call
	workers []sideWorker
	secs    float64
}

type sideWorker struct {
	sent, all, n, errors int
	kept                 []sample
	lastErr              error
}

// runSides loads the servers one after the other for a slice of time each, round and round: what else happens on the
// machine meets all of them alike. Nothing is in flight to the others meanwhile. The order stays, so that each finds the
// caches as cold as the others do.
// Prints one JSON line, with `sides` in the order of addrs.
func runSides(addrs []string, ask httpRequests, run sidesRun) {
	sides := make([]*side, len(addrs))
	for i, addr := range addrs {
		calls := ask.connect(addr, run.clients)
		if first, err := calls[0](0, true); err != nil {
			fmt.Fprintf(os.Stderr, "first request to %s failed: %v %.300s\n", addr, err, first.body)
			os.Exit(2)
		}
		sides[i] = &side{calls: calls, workers: make([]sideWorker, run.clients)}
	}
	rounds := func(seconds float64, measured bool) {
		for range int(math.Ceil(seconds / run.slice)) {
			for _, s := range sides {
				s.load(len(ask.bodies), run, measured)
			}
		}
	}
	rounds(run.warmUp, false)
	s0 := treeCPU(run.pids)
	y0, _, st0 := sysCPU()
	c0, t0 := selfCPU(), time.Now()
	rounds(run.seconds, true)
	el := time.Since(t0).Seconds()
	c1 := selfCPU()
	s1 := treeCPU(run.pids)
	y1, _, st1 := sysCPU()
	cpu := map[string]float64{}
	srv := 0.0
	for name, s := range s1 {
		cpu[name] = s - s0[name]
		srv += cpu[name]
	}
	var of []map[string]any
	var kept [][]sample
	for _, s := range sides {
		of = append(of, s.figures())
		for _, w := range s.workers {
			kept = append(kept, w.kept)
		}
	}
	if run.samples != "" {
		if err := writeSamples(run.samples, kept); err != nil {
			panic(err)
		}
	}
	b, _ := json.Marshal(map[string]any{"sides": of, "cpu_s": cpu, "secs": el, "lg_cpu": (c1 - c0) / el,
		"other_cpu": max(0, (y1-y0)-(c1-c0)-srv) / el, "steal": (st1 - st0) / el})
	fmt.Println(string(b))
}

// load: one slice. What is in flight at its end is waited for, and counted.
func (s *side) load(bodies int, run sidesRun, measured bool) {
	var over atomic.Bool
	var wg sync.WaitGroup
	began := time.Now()
	for i := range s.calls {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for w := &s.workers[i]; !over.Load() && w.ask(s.calls[i], i, bodies, run, measured); {
			}
		}()
	}
	time.Sleep(time.Duration(run.slice * 1e9))
	over.Store(true)
	ended := make(chan bool)
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(stuck):
		fmt.Fprintln(os.Stderr, "workers stuck")
		os.Exit(3)
	}
	if measured {
		s.secs += time.Since(began).Seconds()
	}
}

// ask: one request; false where the connection is of no more use.
func (w *sideWorker) ask(do call, i, bodies int, run sidesRun, measured bool) bool {
	n := i % bodies
	if !run.own {
		n = (i + w.sent) % bodies
	}
	keep := run.every > 0 && w.sent%run.every == 0
	w.sent++
	a, err := do(n, keep)
	if err != nil {
		w.errors++
		w.lastErr = err
		return strings.HasPrefix(err.Error(), "HTTP ")
	}
	if keep {
		w.kept = append(w.kept, sample{n, a})
	}
	w.all++
	if measured {
		w.n++
	}
	return true
}

func (s *side) figures() map[string]any {
	n, all, errors := 0, 0, 0
	var last error
	for _, w := range s.workers {
		n += w.n
		all += w.all
		errors += w.errors
		if w.lastErr != nil {
			last = w.lastErr
		}
	}
	f := map[string]any{"n": n, "all": all, "errors": errors, "rps": float64(n) / s.secs}
	if last != nil {
		f["last_error"] = last.Error()
	}
	return f
}
