package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	testenv "github.com/agentruntime/operator/test/envtest"
)

// Stack is the running system.
type Stack struct {
	// Config and Client are a cluster admin's, and so is the kubeconfig at Admin.
	Config *rest.Config
	Client client.Client
	Admin  string
	// Dir holds everything that the stack writes: binaries below bin, logs,
	// kubeconfigs.
	Dir string
	// Content is the folder behind viking://; below it is one folder a namespace.
	Content string

	options Options
	root    string
	plane   *envtest.Environment
	ports   ports
	// token is the executor's gateway token, and cert its certificate.
	token     string
	cert      *certificate
	processes []*process
}

type ports struct{ webhook, runtime, managerHealth, managerMetrics, facade, facadeHealth, facadeMetrics int }

// step is one part of the start.
type step struct {
	title string
	do    func(context.Context) error
}

// Start starts everything and returns when it is ready. What has been started is
// stopped again when something fails.
func Start(ctx context.Context, options Options) (_ *Stack, err error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agentruntime-stack-")
	if err != nil {
		return nil, fmt.Errorf("make a folder to work in: %w", err)
	}
	s := &Stack{options: options, root: testenv.Root(), Dir: dir, Content: filepath.Join(dir, "content")}
	defer func() {
		if err != nil {
			s.PrintLogs(os.Stderr)
			err = errors.Join(err, s.Stop())
		}
	}()
	steps := s.steps()
	for i, step := range steps {
		began := time.Now()
		options.Step(i+1, len(steps), step.title, 0, false)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.title, err)
		}
		options.Step(i+1, len(steps), step.title, time.Since(began), true)
	}
	return s, nil
}

func (s *Stack) steps() []step {
	steps := []step{
		{"Building the manager, the facade, the executor and arctl", s.build},
		{"Starting etcd and the API server", s.startPlane},
		{"Installing the operator: CRDs, roles, admission policies, webhooks", s.install},
	}
	if !s.options.WithoutRuntime {
		steps = append(steps, step{"Starting the executor", s.startRuntime})
	}
	steps = append(steps,
		step{"Starting the manager, with the rights of its own ServiceAccount only", s.StartManager},
		step{"Starting the facade, with the rights of its own ServiceAccount only", s.StartFacade},
	)
	if !s.options.WithoutRuntime {
		steps = append(steps, step{"Registering the executor as the default AgentRuntime", s.registerRuntime})
	}
	return steps
}

// build builds the servers as the suite itself is built, and the tools plainly, so
// that no package is compiled once more for this.
func (s *Stack) build(ctx context.Context) error {
	cgo := "CGO_ENABLED=0"
	if len(raceFlags()) > 0 {
		cgo = "CGO_ENABLED=1"
	}
	return errors.Join(
		s.goBuild(ctx, cgo, append(raceFlags(), "./cmd/manager", "./cmd/facade", "./cmd/runtime")...),
		s.goBuild(ctx, "CGO_ENABLED=0", "./cmd/arctl", "./hack/runtimecert"))
}

func (s *Stack) goBuild(ctx context.Context, cgo string, arguments ...string) error {
	command := exec.CommandContext(ctx, "go", append([]string{"build", "-o", filepath.Join(s.Dir, "bin") + "/"}, arguments...)...)
	command.Dir = s.root
	command.Env = append(os.Environ(), cgo)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Binary is the path of a program that the stack was built with.
func (s *Stack) Binary(name string) string { return filepath.Join(s.Dir, "bin", name) }

// Kubectl is the path of the control plane's kubectl.
func (s *Stack) Kubectl() string { return filepath.Join(s.options.Assets, "kubectl") }

// Token is the executor's gateway token.
func (s *Stack) Token() string { return s.token }

// Stop ends the processes, the last one first, then the control plane, and removes
// Dir.
func (s *Stack) Stop() error {
	var failures []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		failures = append(failures, s.processes[i].stop())
	}
	s.processes = nil
	if s.plane != nil {
		failures = append(failures, s.plane.Stop())
	}
	failures = append(failures, s.races())
	return errors.Join(append(failures, os.RemoveAll(s.Dir))...)
}

// readyTimeout bounds each wait for something to come up.
const readyTimeout = 60 * time.Second

func (s *Stack) untilOK(ctx context.Context, c *http.Client, name, url string) error {
	return s.Until(ctx, name+" to answer "+url, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := c.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // Not up yet.
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

// Until asks again and again until the answer is yes, asking fails, a process of
// the stack has ended, or a minute is over.
func (s *Stack) Until(ctx context.Context, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		yes, err := ask()
		if yes || err != nil {
			return err
		}
		for _, p := range s.processes {
			if p.hasEnded() {
				return fmt.Errorf("%s has ended while waiting for %s: %w", p.name, what, p.err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s in vain", readyTimeout, what)
		case <-ticker.C:
		}
	}
}
