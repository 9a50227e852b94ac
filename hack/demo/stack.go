package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	operatorNamespace = "agentruntime-system"
	demoNamespace     = "demo"
	demoUser          = "alice"
)

// stack is the running system.
type stack struct {
	options
	work string

	plane   *envtest.Environment
	config  *rest.Config
	client  client.Client
	ports   ports
	token   string
	cert    *certificate // the executor's
	admin   string       // kubeconfig of a cluster admin
	user    string       // kubeconfig of the demo's user
	content string       // the folder behind viking://

	processes []*process
}

type ports struct{ webhook, runtime, health, metrics int }

func (s *stack) start(ctx context.Context) error {
	s.content = filepath.Join(s.work, "content")
	steps := []struct {
		title string
		do    func(context.Context) error
	}{
		{"Building the manager and the executor", s.build},
		{"Starting etcd and the API server", s.startPlane},
		{"Installing the operator: CRDs, roles, admission policies, webhooks", s.install},
		{"Putting the documents and the Skill where the executor finds them", s.placeContent},
		{"Starting the executor", s.startRuntime},
		{"Starting the manager, with the rights of its own ServiceAccount only", s.startManager},
		{"Making a user, " + demoUser + ", who may create tasks in the namespace " + demoNamespace, s.makeUser},
		{"Registering the executor as the default AgentRuntime", s.registerRuntime},
	}
	for i, step := range steps {
		began := time.Now()
		fmt.Printf("[%d/%d] %s ... ", i+1, len(steps), step.title)
		if err := step.do(ctx); err != nil {
			fmt.Println("failed")
			return fmt.Errorf("%s: %w", step.title, err)
		}
		fmt.Printf("%.1f s\n", time.Since(began).Seconds())
	}
	return nil
}

func (s *stack) build(ctx context.Context) error {
	command := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(s.work, "bin")+"/", "./cmd/manager", "./cmd/runtime", "./hack/runtimecert")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func (s *stack) startPlane(context.Context) error {
	s.plane = &envtest.Environment{BinaryAssetsDirectory: s.assets}
	config, err := s.plane.Start()
	if err != nil {
		return fmt.Errorf("start the control plane of %s: %w", s.assets, err)
	}
	config.QPS = -1
	s.config = config
	user, err := s.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return fmt.Errorf("make an admin: %w", err)
	}
	s.admin, err = s.writeKubeconfig("admin", user)
	if err != nil {
		return err
	}
	s.client, err = client.New(config, client.Options{Scheme: newScheme()})
	return err
}

func (s *stack) writeKubeconfig(name string, user *envtest.AuthenticatedUser) (string, error) {
	data, err := user.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	path := filepath.Join(s.work, name+".kubeconfig")
	return path, os.WriteFile(path, data, 0o600)
}

// tokenKubeconfig writes a kubeconfig that holds a token.
func (s *stack) tokenKubeconfig(name, token string) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["demo"] = &clientcmdapi.Cluster{Server: s.config.Host, CertificateAuthorityData: s.config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["demo"] = &clientcmdapi.Context{Cluster: "demo", AuthInfo: name}
	config.CurrentContext = "demo"
	path := filepath.Join(s.work, name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// placeContent copies the documents and the Skill below the account's root, which
// is named as the namespace is.
func (s *stack) placeContent(context.Context) error {
	account := filepath.Join(s.content, demoNamespace)
	for from, to := range map[string]string{
		s.from: filepath.Join(account, "resources", "docs"),
		filepath.Join("config", "samples", "skills", "llm-wiki"): filepath.Join(account, "agent", "skills", "llm-wiki"),
	} {
		if err := copyFolder(from, to); err != nil {
			return err
		}
	}
	return nil
}

// maxDocument is the largest file that copyFolder takes, in bytes.
const maxDocument = 64 << 20

// copyFolder copies regular files only, and leaves out hidden ones.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if relative != "." && entry.Name()[0] == '.' {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o750)
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxDocument {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}

func (s *stack) startRuntime(ctx context.Context) error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	s.token = hex.EncodeToString(secret)
	tokenFile := filepath.Join(s.work, "gateway-token")
	if err := os.WriteFile(tokenFile, []byte(s.token), 0o600); err != nil {
		return err
	}
	var err error
	if s.ports.runtime, err = freePort(ctx); err != nil {
		return err
	}
	const host = "127.0.0.1"
	if s.cert, err = s.makeCertificate(ctx, host); err != nil {
		return err
	}
	address := net.JoinHostPort(host, strconv.Itoa(s.ports.runtime))
	err = s.run("runtime", filepath.Join(s.work, "bin", "runtime"),
		"--listen-address="+address, "--metrics-address=", "--data-dir="+filepath.Join(s.work, "sessions"), "--content-dir="+s.content,
		"--gateway-token-file="+tokenFile, "--tls-cert-file="+s.cert.certFile, "--tls-key-file="+s.cert.keyFile)
	if err != nil {
		return err
	}
	return s.untilOK(ctx, s.cert.client(), "runtime", "https://"+address+"/readyz")
}

func (s *stack) startManager(ctx context.Context) error {
	token, err := s.serviceAccountToken(ctx, "agentruntime-manager")
	if err != nil {
		return err
	}
	kubeconfig, err := s.tokenKubeconfig("manager", token)
	if err != nil {
		return err
	}
	if s.ports.health, err = freePort(ctx); err != nil {
		return err
	}
	if s.ports.metrics, err = freePort(ctx); err != nil {
		return err
	}
	err = s.run("manager", filepath.Join(s.work, "bin", "manager"),
		"--kubeconfig="+kubeconfig, "--namespace="+operatorNamespace, "--leader-elect", "--identity=demo", "--log-format=console",
		// Puts every task on record as soon as the executor has it, so that the quick
		// ones of the demo show their events too.
		"--first-poll-wait=0",
		"--webhook-host=127.0.0.1", "--webhook-port="+strconv.Itoa(s.ports.webhook),
		"--health-probe-bind-address=127.0.0.1:"+strconv.Itoa(s.ports.health),
		"--metrics-bind-address=127.0.0.1:"+strconv.Itoa(s.ports.metrics))
	if err != nil {
		return err
	}
	return s.untilOK(ctx, http.DefaultClient, "manager", fmt.Sprintf("http://127.0.0.1:%d/readyz", s.ports.health))
}

// process is a child of the demo. Its log goes to a file. done is closed when it
// has ended, with err.
type process struct {
	name    string
	command *exec.Cmd
	log     string
	done    chan struct{}
	err     error
}

func (s *stack) run(name, binary string, arguments ...string) error {
	logPath := filepath.Join(s.work, name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(binary, arguments...) //nolint:noctx // It is ended by stop, in order and in time.
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, command: command, log: logPath, done: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.done)
	}()
	s.processes = append(s.processes, p)
	return nil
}

// readyTimeout bounds each wait for something to come up.
const readyTimeout = 60 * time.Second

func (s *stack) untilOK(ctx context.Context, c *http.Client, name, url string) error {
	return s.until(ctx, name+" to answer "+url, func() (bool, error) {
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

// until asks again and again until the answer is yes, a child has ended, or the
// time is up.
func (s *stack) until(ctx context.Context, what string, ask func() (bool, error)) error {
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
			select {
			case <-p.done:
				return fmt.Errorf("%s has ended while waiting for %s: %w", p.name, what, p.err)
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s in vain", readyTimeout, what)
		case <-ticker.C:
		}
	}
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// showLogs prints the end of each child's log.
func (s *stack) showLogs() {
	const lines = 25
	for _, p := range s.processes {
		data, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		all := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		fmt.Fprintf(os.Stderr, "\n--- the end of the %s's log\n%s\n", p.name, bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
	}
}

// stop ends the children, the last one first, then the control plane.
func (s *stack) stop() error {
	var failures []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		p := s.processes[i]
		if err := p.command.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			failures = append(failures, err)
		}
		select {
		case <-p.done:
		case <-time.After(30 * time.Second):
			failures = append(failures, fmt.Errorf("%s did not end when asked", p.name), p.command.Process.Kill())
		}
	}
	if s.plane != nil {
		failures = append(failures, s.plane.Stop())
	}
	return errors.Join(failures...)
}
