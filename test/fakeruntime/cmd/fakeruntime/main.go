// Command fakeruntime serves the programmable executor as a process of its own,
// for suites that kill the manager and for load. GET /debug/report tells what
// reached it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It prints the base URL as its first line.
func run(ctx context.Context, args []string, out io.Writer) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	server, err := fakeruntime.Listen(opts)
	if err != nil {
		return err
	}
	defer server.Close()
	if _, err := fmt.Fprintln(out, server.URL); err != nil {
		return fmt.Errorf("print the URL: %w", err)
	}
	<-ctx.Done()
	return nil
}

func parse(args []string) (fakeruntime.Options, error) {
	var opts fakeruntime.Options
	var stages, user string
	held := true
	flags := flag.NewFlagSet("fakeruntime", flag.ContinueOnError)
	flags.StringVar(&opts.Addr, "listen", "127.0.0.1:0", "address to listen on")
	flags.DurationVar(&opts.Latency, "latency", 0, "delay of every call")
	flags.StringVar(&stages, "stages", "", `stages before completion, as "reading=50ms,writing=1s"; none completes at once`)
	flags.BoolVar(&held, "held-polls", true, "apply Prefer: wait")
	flags.BoolVar(&opts.Durable, "durable", true, "keep keys over a restart asked for in process")
	flags.BoolVar(&opts.RequireAPIKey, "require-api-key", false, "refuse calls without X-API-Key")
	flags.StringVar(&user, "user-by", "key", `what tells users apart: "key" or "headers"`)
	flags.IntVar(&opts.LoseAnswerEvery, "lose-answer-every", 0, "drop the answer of every n-th create that had its effect")
	flags.IntVar(&opts.MaxTasks, "max-tasks", fakeruntime.DefaultMaxTasks, "tasks kept in memory and keys in the report")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.NoHeldPolls = !held
	opts.MaxCalls = -1
	switch user {
	case "key":
		opts.UserOf = fakeruntime.ByAPIKey
	case "headers":
		opts.UserOf = fakeruntime.ByAccountAndUser
	default:
		return opts, fmt.Errorf("--user-by: %q is neither key nor headers", user)
	}
	steps, err := parseStages(stages)
	opts.Default.Steps = steps
	return opts, err
}

// parseStages returns the script of a list of stages with the time each lasts.
func parseStages(list string) ([]fakeruntime.Step, error) {
	if list == "" {
		return nil, nil
	}
	var steps []fakeruntime.Step
	var after time.Duration
	for item := range strings.SplitSeq(list, ",") {
		name, lasts, ok := strings.Cut(item, "=")
		d, err := time.ParseDuration(lasts)
		if !ok || err != nil || d < 0 || name == "" {
			return nil, fmt.Errorf("--stages: %q is not <stage>=<duration>", item)
		}
		steps = append(steps, fakeruntime.Step{After: after, Status: runtimeapi.TaskStatus{
			Status: runtimeapi.StatusRunning, Stage: "compile: " + name,
		}})
		after = d
	}
	return append(steps, fakeruntime.Step{After: after, Status: fakeruntime.Completed("")}), nil
}
