package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
	"github.com/agentruntime/operator/test/stack"
)

const (
	// namespace is where everything happens.
	namespace = "interop"
	// slowTarget begins the targets of tasks that run until they are cancelled.
	slowTarget = "viking://resources/slow/"
	// unknownTask has the form of an id.
	unknownTask = "cmp_00000000000000000000000000000000"
)

// lab is the running operator and who uses it.
type lab struct {
	plane     *stack.Stack
	executor  *fakeruntime.Server
	authority string // the path of the facade's authority, in PEM
	// user may create tasks, other too, and powerless nothing.
	user, other, powerless person
}

// person is a ServiceAccount with an API key.
type person struct{ name, key string }

func newLab(t *testing.T) *lab {
	t.Helper()
	// The processes' logs tell more than the test's own clients.
	log.SetLogger(logr.Discard())
	plane, err := stack.Start(t.Context(), stack.Options{
		WithoutRuntime: true,
		// One person asks for everything here, as fast as they can.
		FacadeFlags: []string{"--rate-limit=10000", "--rate-burst=10000", "--max-in-flight=1000"},
	})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			plane.PrintLogs(os.Stderr)
		}
		if err := plane.Stop(); err != nil {
			t.Errorf("stop the stack: %v", err)
		}
	})
	l := &lab{plane: plane, executor: startExecutor(t), authority: filepath.Join(plane.Dir, "facade-ca.crt")}
	pem, err := plane.FacadeAuthority(t.Context())
	must(t, err)
	must(t, os.WriteFile(l.authority, pem, 0o600))
	must(t, plane.AddNamespace(t.Context(), namespace))
	runtime := &v1alpha1.AgentRuntime{Spec: v1alpha1.AgentRuntimeSpec{URL: l.executor.URL, DurableKeys: true, MaxConcurrentTasks: 1000}}
	runtime.Name, runtime.Annotations = "executor", map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}
	must(t, plane.Client.Create(t.Context(), runtime))
	l.user = l.newPerson(t, "user", "agentruntime-user", "agentruntime-runtime-user")
	l.other = l.newPerson(t, "other", "agentruntime-user", "agentruntime-runtime-user")
	l.powerless = l.newPerson(t, "powerless")
	return l
}

// startExecutor starts the executor: tasks complete at once, slow ones never.
func startExecutor(t *testing.T) *fakeruntime.Server {
	t.Helper()
	executor, err := fakeruntime.Listen(fakeruntime.Options{Durable: true})
	must(t, err)
	t.Cleanup(executor.Close)
	slow := func(c fakeruntime.Create) bool { return strings.HasPrefix(c.Payload.To, slowTarget) }
	executor.On(slow, fakeruntime.Behaviour{
		Steps: fakeruntime.Script(fakeruntime.Running("compile: agent"), fakeruntime.Completed("")),
		// A client sees it in cancelling, too.
		CancelPolls: 2,
	})
	return executor
}

// newPerson makes a ServiceAccount with roles, and an API key by arctl.
func (l *lab) newPerson(t *testing.T, name string, roles ...string) person {
	t.Helper()
	must(t, l.plane.AddServiceAccount(t.Context(), namespace, name))
	must(t, l.plane.Bind(t.Context(), namespace, stack.AccountSubject(namespace, name), roles...))
	user := "system:serviceaccount:" + namespace + ":" + name
	command := exec.CommandContext(t.Context(), l.plane.Binary("arctl"), "apikey", "create", "--namespace", namespace, "--as-user", user)
	command.Env = append(os.Environ(), "KUBECONFIG="+l.plane.Admin)
	out, err := command.Output()
	must(t, err)
	return person{name: name, key: strings.TrimSpace(string(out))}
}

// kubeconfig is the path of one with a person's token.
func (l *lab) kubeconfig(ctx context.Context, p person) (string, error) {
	token, err := l.plane.ServiceAccountToken(ctx, namespace, p.name)
	if err != nil {
		return "", err
	}
	return l.plane.TokenKubeconfig("person-"+p.name, token)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
