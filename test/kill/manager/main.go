// Command manager runs the CompileTask controller as the shipped manager does, for
// the suites that kill and measure it: it can end itself at a named point, see the
// cluster late, and tell what it uses. It has no admission and no leader election.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/test/kill/crash"
)

// options are the command's flags.
type options struct {
	kubeconfig    string
	keyRing       string
	namespaces    string
	debugAddress  string
	killAt        string
	killSkip      int64
	killAfter     time.Duration
	stale         time.Duration
	firstPollWait time.Duration
	verbose       bool
}

func main() {
	err := run(ctrl.SetupSignalHandler(), os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server")
	flags.StringVar(&o.keyRing, "key-ring", "", "JSON file of the key ring's entries")
	flags.StringVar(&o.namespaces, "namespaces", "", "comma-separated namespaces to look at; empty means all")
	flags.StringVar(&o.debugAddress, "debug-address", "127.0.0.1:0", "where to serve /metrics, /debug/stats and /debug/pprof")
	flags.StringVar(&o.killAt, "kill-at", "", "point at which to end this process with SIGKILL")
	flags.Int64Var(&o.killSkip, "kill-skip", 0, "how often the point is passed first")
	flags.DurationVar(&o.killAfter, "kill-after", 0, "time after the start before which passing does not count")
	flags.DurationVar(&o.stale, "stale", 0, "show the cluster up to this much late")
	flags.DurationVar(&o.firstPollWait, "first-poll-wait", time.Second, "as the manager's flag")
	flags.BoolVar(&o.verbose, "verbose", false, "log more than errors")
	err := flags.Parse(args)
	return o, err
}

// run runs the manager until ctx ends. It prints the debug address as its first
// line.
func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	level := zapcore.ErrorLevel
	if o.verbose {
		level = zapcore.InfoLevel
	}
	ctrl.SetLogger(zap.New(zap.Level(level), zap.StacktraceLevel(zapcore.PanicLevel)))
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	ring, err := readKeyRing(o.keyRing)
	if err != nil {
		return err
	}
	killer := &crash.Killer{
		Point: crash.Point(o.killAt), Skip: o.killSkip, After: time.Now().Add(o.killAfter), Out: os.Stdout,
	}
	mgr, tasks, err := build(config, ring, killer, o)
	if err != nil {
		return err
	}
	debug, err := listenDebug(ctx, o.debugAddress)
	if err != nil {
		return err
	}
	if err := mgr.Add(debug); err != nil {
		return fmt.Errorf("add the debug server: %w", err)
	}
	fmt.Println("http://" + debug.address())
	err = mgr.Start(ctx)
	tasks.Wait()
	return err
}

func readKeyRing(path string) (*sealed.KeyRing, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key ring: %w", err)
	}
	var entries map[string][]byte
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("decode the key ring: %w", err)
	}
	return sealed.ParseKeyRing(entries)
}

// split cuts a comma-separated list; an empty one has nothing in it.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
