// Command load measures the budgets of DESIGN.md that concern CompileTasks and the
// facade, on control planes of its own, and exits non-zero when one is missed. What is
// a ratio is measured against raw client-go, or against itself, in the same run.
//
// The manager under test runs as a process of its own (test/kill/manager, which
// wires what the shipped one does, without admission and leader election), and so
// does the executor. The facade's rows run the programs and the configuration that
// ship (test/stack). docs/performance.md tells what each row means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the command's flags.
type options struct {
	rows     string
	quick    bool
	finished int
	running  int
	rounds   int
	tasks    int
	pairs    int
	slow     int
	idle     time.Duration
	// slowRounds are those of the row facade-slow, in each of which the good client
	// is measured for slowSpan alone and as long beside the others.
	slowRounds int
	slowSpan   time.Duration
	workDir    string
}

// Sizes of the full and of the quick run.
const (
	fullFinished, quickFinished = 100_000, 5_000
	fullRunning, quickRunning   = 10_000, 1_000
	fullRounds, quickRounds     = 5, 4
	fullTasks, quickTasks       = 800, 400
	fullIdle, quickIdle         = time.Minute, 20 * time.Second
	fullPairs, quickPairs       = 1000, 300
	fullSlow, quickSlow         = 5000, 1000

	fullSlowRounds, quickSlowRounds = 3, 1
	fullSlowSpan, quickSlowSpan     = 20 * time.Second, 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&o.rows, "rows", "", "comma-separated rows to measure, of "+strings.Join(names(), ", ")+"; empty means all")
	flags.BoolVar(&o.quick, "quick", false, "smaller sizes, for CI; the sizes and scaled bounds are printed")
	flags.IntVar(&o.finished, "finished", 0, fmt.Sprintf("finished tasks of the row scale; 0 means %d, quick %d", fullFinished, quickFinished))
	flags.IntVar(&o.running, "running", 0, fmt.Sprintf("running tasks of the row scale; 0 means %d, quick %d", fullRunning, quickRunning))
	flags.IntVar(&o.rounds, "rounds", 0, fmt.Sprintf("rounds of the row throughput, each raw and with the operator; 0 means %d, quick %d", fullRounds, quickRounds))
	flags.IntVar(&o.tasks, "tasks", 0, fmt.Sprintf("tasks of a round; 0 means %d, quick %d", fullTasks, quickTasks))
	flags.IntVar(&o.pairs, "pairs", 0, fmt.Sprintf("creates, each facade and raw, of the row facade-post; 0 means %d, quick %d", fullPairs, quickPairs))
	flags.IntVar(&o.slow, "slow", 0, fmt.Sprintf("slow clients of the row facade-slow; 0 means %d, quick %d", fullSlow, quickSlow))
	flags.StringVar(&o.workDir, "work-dir", "", "folder for binaries, logs and profiles, kept; empty means a temporary one")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	pick := func(value *int, full, quick int) {
		switch {
		case *value == 0 && o.quick:
			*value = quick
		case *value == 0:
			*value = full
		}
	}
	pick(&o.finished, fullFinished, quickFinished)
	pick(&o.running, fullRunning, quickRunning)
	pick(&o.rounds, fullRounds, quickRounds)
	pick(&o.tasks, fullTasks, quickTasks)
	pick(&o.pairs, fullPairs, quickPairs)
	pick(&o.slow, fullSlow, quickSlow)
	o.idle, o.slowRounds, o.slowSpan = fullIdle, fullSlowRounds, fullSlowSpan
	if o.quick {
		o.idle, o.slowRounds, o.slowSpan = quickIdle, quickSlowRounds, quickSlowSpan
	}
	return o, o.check()
}

func (o *options) check() error {
	for _, name := range o.chosen() {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("--rows: %q is none of %s", name, strings.Join(names(), ", "))
		}
	}
	if o.running < fewRunning || o.finished < 0 || o.rounds < 1 || o.tasks < inFlight {
		return fmt.Errorf("--running must be at least %d, --tasks at least %d, --rounds positive, --finished not negative", fewRunning, inFlight)
	}
	if o.pairs < 1 || o.slow < 1 {
		return errors.New("--pairs and --slow must be positive")
	}
	return nil
}

// chosen lists the rows to measure.
func (o *options) chosen() []string {
	if chosen := strings.FieldsFunc(o.rows, func(r rune) bool { return r == ',' }); len(chosen) > 0 {
		return chosen
	}
	return names()
}

// place is where rows are measured: a control plane and what they need beside it.
type place interface{ close() }

// row is a measurement at a place of its kind.
type row[P place] struct {
	name    string
	measure func(P, context.Context) ([]result, error)
}

// managerRows need the manager alone.
func managerRows() []row[*lab] {
	return []row[*lab]{
		{"writes", (*lab).writes},
		{"throughput", (*lab).throughput},
		{"latency", (*lab).latency},
		{"recovery", (*lab).recovery},
		{"end", (*lab).end},
		{"scale", (*lab).scale},
	}
}

// facadeRows need all that ships.
func facadeRows() []row[*bench] {
	return []row[*bench]{
		{"facade-post", (*bench).post},
		{"facade-get", (*bench).get},
		{"facade-slow", (*bench).slowClients},
	}
}

func names() []string {
	var all []string
	for _, r := range managerRows() {
		all = append(all, r.name)
	}
	for _, r := range facadeRows() {
		all = append(all, r.name)
	}
	return all
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == crowdCommand {
		return runCrowd(ctx, os.Stdin, out)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	log.SetLogger(logr.Discard())
	results, managerErr := measure(ctx, o, out, managerRows(), newLab)
	more, facadeErr := measure(ctx, o, out, facadeRows(), newBench)
	results = append(results, more...)
	printTable(out, results)
	return errors.Join(append(missed(results), managerErr, facadeErr)...)
}

// measure measures those of the rows that were chosen at one place, which it opens
// and closes. A row that fails does not keep the others from being measured.
func measure[P place](
	ctx context.Context, o options, out io.Writer, rows []row[P], open func(context.Context, options, io.Writer) (P, error),
) ([]result, error) {
	rows = slices.DeleteFunc(rows, func(r row[P]) bool { return !slices.Contains(o.chosen(), r.name) })
	if len(rows) == 0 {
		return nil, nil
	}
	at, err := open(ctx, o, out)
	if err != nil {
		return nil, err
	}
	defer at.close()
	var results []result
	var problems []error
	for _, r := range rows {
		_, _ = fmt.Fprintf(out, "%s ...\n", r.name)
		began := time.Now()
		found, err := r.measure(at, ctx)
		if err != nil {
			problems = append(problems, fmt.Errorf("row %s: %w", r.name, err))
		}
		_, _ = fmt.Fprintf(out, "%s took %.0f s\n", r.name, time.Since(began).Seconds())
		results = append(results, found...)
	}
	return results, errors.Join(problems...)
}
