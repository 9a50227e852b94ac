// Command demo runs the whole operator on this machine, without a cluster: it
// starts etcd and an API server, installs the operator as it ships, runs the
// manager, the facade and the built-in executor under the rights of their own
// ServiceAccounts, and takes compiles from kubectl, curl and arctl to a wiki on
// disk. Everything listens on loopback and ends with it.
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

func run(ctx context.Context, o options) error {
	if err := o.complete(); err != nil {
		return err
	}
	if err := play(ctx, o); ctx.Err() == nil {
		return err
	}
	fmt.Println("\ninterrupted; cleaned up")
	return nil
}

// play is the demo from its start to where it ends, or is interrupted.
func play(ctx context.Context, o options) (err error) {
	d, err := start(ctx, o)
	if d == nil {
		return err
	}
	defer func() {
		// A failure shows the end of the logs before they go.
		if err != nil && ctx.Err() == nil {
			d.PrintLogs(os.Stderr)
		}
		err = errors.Join(err, d.Stop())
	}()
	if err != nil {
		return err
	}
	if err := d.tell(ctx); err != nil {
		return err
	}
	if o.stay {
		d.printAccess()
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
	return nil
}
