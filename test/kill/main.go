// Command kill shows that ending the manager with SIGKILL, at any point of its
// work, neither loses a CompileTask nor has it run twice.
//
// It runs a control plane, an executor that counts every create and every
// execution, and managers that end themselves at named points (package crash)
// while tasks of every kind are made. Then it compares what the executor saw with
// what the API server holds. The first phase has one manager that is started
// again; the second has two at a time without leader election, which see the
// cluster late. It prints figures and exits non-zero when one falls short.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/agentruntime/operator/internal/sealed"
	testenv "github.com/agentruntime/operator/test/envtest"
	"github.com/agentruntime/operator/test/kill/process"
)

// options are the command's flags.
type options struct {
	tasks   int
	kills   int
	seed    uint64
	stale   time.Duration
	timeout time.Duration
	phase   string
	workDir string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "kill:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("kill", flag.ContinueOnError)
	flags.IntVar(&o.tasks, "tasks", 200, "tasks made in each phase at least")
	flags.IntVar(&o.kills, "kills", 50, "kills in each phase; every point gets its share")
	flags.Uint64Var(&o.seed, "seed", 1, "what the choices of a run are drawn from")
	flags.DurationVar(&o.stale, "stale", 200*time.Millisecond, "how late the second phase's managers see the cluster at most")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "bound of one phase")
	flags.StringVar(&o.phase, "phase", "", `"one" or "two" to run only that phase`)
	flags.StringVar(&o.workDir, "work-dir", "", "folder for binaries and logs, kept; empty means a temporary one")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.tasks < 1 || o.kills < 0 || o.stale < 0 {
		return o, errors.New("--tasks must be positive, --kills and --stale not negative")
	}
	if o.phase != "" && o.phase != "one" && o.phase != "two" {
		return o, fmt.Errorf("--phase: %q is neither one nor two", o.phase)
	}
	return o, nil
}

// lab is what the phases share.
type lab struct {
	options

	out        io.Writer
	client     client.WithWatch
	dir        string
	manager    string
	kubeconfig string
	ringFile   string
	ring       *sealed.KeyRing
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	log.SetLogger(logr.Discard())
	l := &lab{options: o, out: out, dir: o.workDir}
	if l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "kill-"); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		defer func() { _ = os.RemoveAll(l.dir) }()
	}
	env, err := testenv.Start(testenv.Options{}) //nolint:contextcheck // It takes none; Stop ends it.
	if err != nil {
		return err
	}
	defer func() { _ = env.Stop() }()
	if err := l.prepare(ctx, env); err != nil {
		return err
	}
	var short []error
	for _, p := range []*phase{
		{lab: l, name: "one", title: "One manager, started again after each kill", managers: 1},
		{lab: l, name: "two", title: "Two managers without leader election, each seeing the cluster late", managers: 2, late: o.stale},
	} {
		if o.phase != "" && o.phase != p.name {
			continue
		}
		if err := p.run(ctx); err != nil {
			short = append(short, fmt.Errorf("phase %s: %w", p.name, err))
		}
	}
	return errors.Join(short...)
}

// prepare builds the manager and writes what it reads.
func (l *lab) prepare(ctx context.Context, env *testenv.Environment) error {
	var err error
	if l.client, err = client.NewWithWatch(env.Config, client.Options{Scheme: testenv.NewScheme()}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	l.kubeconfig, l.ringFile = filepath.Join(l.dir, "kubeconfig"), filepath.Join(l.dir, "key-ring.json")
	entries := sealed.GenerateKeyRingData()
	if l.ring, err = sealed.ParseKeyRing(entries); err != nil {
		return fmt.Errorf("make a key ring: %w", err)
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("encode the key ring: %w", err)
	}
	const private = 0o600
	if err := errors.Join(os.WriteFile(l.kubeconfig, env.KubeConfig, private), os.WriteFile(l.ringFile, text, private)); err != nil {
		return fmt.Errorf("write what the manager reads: %w", err)
	}
	began := time.Now()
	l.manager, err = process.Build(ctx, l.dir, "github.com/agentruntime/operator/test/kill/manager")
	l.printf("manager built in %.1f s\n", time.Since(began).Seconds())
	return err
}

func (l *lab) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(l.out, format, args...)
}
