// Command demo runs the whole operator on this machine, without a cluster: it
// starts etcd and an API server, installs config/default, runs the manager under
// its own ServiceAccount's rights and the built-in executor, and takes a
// CompileTask from kubectl to a wiki on disk. Everything listens on loopback and
// ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	options := options{}
	flag.StringVar(&options.from, "from", "", "the folder with the documents to compile; the samples when empty")
	flag.StringVar(&options.assets, "assets", "bin/k8s", "the folder with etcd, kube-apiserver and kubectl")
	flag.BoolVar(&options.stay, "stay", false, "stay until interrupted, after the story")
	flag.Parse()
	// The control plane's own messages would only stand between the demo's.
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// options say what the demo does.
type options struct {
	from   string
	assets string
	stay   bool
}

func run(ctx context.Context, o options) (err error) {
	if err := o.complete(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "agentruntime-demo-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	s := &stack{options: o, work: work}
	defer func() {
		// A failure shows the end of the logs before they go.
		if err != nil {
			s.showLogs()
		}
		err = errors.Join(err, s.stop(), os.RemoveAll(work))
	}()
	err = s.play(ctx)
	if ctx.Err() != nil {
		fmt.Println("\ninterrupted; cleaning up")
		err = nil
	}
	return err
}

// play is the demo from its start to where it ends, or is interrupted.
func (s *stack) play(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := tell(ctx, s); err != nil {
		return err
	}
	if s.stay {
		s.printAccess()
		<-ctx.Done()
	}
	return nil
}

// complete fills in defaults and makes the paths absolute.
func (o *options) complete() error {
	if o.from == "" {
		o.from = filepath.Join("config", "samples", "corpus")
	}
	var err error
	if o.from, err = filepath.Abs(o.from); err != nil {
		return fmt.Errorf("find the documents: %w", err)
	}
	if info, err := os.Stat(o.from); err != nil || !info.IsDir() {
		return fmt.Errorf("FROM: %s is not a folder", o.from)
	}
	if countFiles(o.from) == 0 {
		return fmt.Errorf("FROM: %s has no documents", o.from)
	}
	if o.assets, err = filepath.Abs(o.assets); err != nil {
		return fmt.Errorf("find the control plane: %w", err)
	}
	return nil
}
