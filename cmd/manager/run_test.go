package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed/ringsecret"
	testenv "github.com/agentruntime/operator/test/envtest"
	"github.com/agentruntime/operator/test/fakeruntime"
)

const namespace = "agentruntime-system"

// TestRun runs the whole manager, as main does, on a real API server.
func TestRun(t *testing.T) {
	env, err := testenv.Start(testenv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}()
	k8s, err := client.New(env.Config, client.Options{Scheme: newScheme()})
	if err != nil {
		t.Fatal(err)
	}
	fake := fakeruntime.Start(fakeruntime.Options{Durable: true, Default: fakeruntime.Behaviour{
		Steps: fakeruntime.Script(fakeruntime.Completed(`{"created":["viking://resources/wiki/index.md"]}`)),
	}})
	defer fake.Close()
	prepare(t, k8s, fake.URL)
	kubeconfig, certs := adminKubeconfig(t, env), servingCertificate(t)

	t.Run("a manager that comes back under its name leads at once and does the work", func(t *testing.T) {
		leaveLease(t, k8s, "manager-0")
		stop := startManager(t, kubeconfig, certs, "manager-0")
		task := createTask(t, k8s, "first")
		if err := untilComplete(t, k8s, task, 10*time.Second); err != nil {
			t.Errorf("the task did not complete: %v", err)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Run("a standby under another name leaves a living leader alone, and takes over when it is gone", func(t *testing.T) {
		leaveLease(t, k8s, "manager-0")
		stop := startManager(t, kubeconfig, certs, "manager-1")
		task := createTask(t, k8s, "second")
		if err := untilComplete(t, k8s, task, 2*time.Second); !wait.Interrupted(err) {
			t.Errorf("the standby worked beside the leader: %v", err)
		}
		// Nobody renews the lease: it runs out 15 s after the standby first saw it.
		if err := untilComplete(t, k8s, task, 30*time.Second); err != nil {
			t.Errorf("the standby did not take over: %v", err)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func prepare(t *testing.T, k8s client.Client, url string) {
	t.Helper()
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ringsecret.Name}, Type: ringsecret.Type},
		&v1alpha1.AgentRuntime{
			ObjectMeta: metav1.ObjectMeta{Name: "fake"},
			Spec:       v1alpha1.AgentRuntimeSpec{URL: url, DurableKeys: true},
		},
	} {
		if err := k8s.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func adminKubeconfig(t *testing.T, env *testenv.Environment) string {
	t.Helper()
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func servingCertificate(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// leaveLease leaves the lease as a leader that was just killed leaves it.
func leaveLease(t *testing.T, k8s client.Client, holder string) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}}
	if err := client.IgnoreNotFound(k8s.Delete(t.Context(), lease)); err != nil {
		t.Fatal(err)
	}
	now := metav1.NowMicro()
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), AcquireTime: &now, RenewTime: &now,
	}
	if err := k8s.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

// asManager, when set in the environment, has the test binary be the manager.
const asManager = "TEST_AS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// startManager runs the manager as a process of its own until the returned
// function is called, which returns how it ended.
func startManager(t *testing.T, kubeconfig, certs, identity string) (stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	command := exec.Command(os.Args[0],
		"--kubeconfig="+kubeconfig, "--namespace="+namespace, "--identity="+identity, "--log-format=console",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--webhook-host=127.0.0.1", "--webhook-port="+port, "--webhook-cert-rotation=false", "--webhook-cert-dir="+certs)
	command.Env = append(os.Environ(), asManager+"=1")
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return func() error {
		if err := command.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		if err := command.Wait(); err != nil {
			return fmt.Errorf("%w\n%s", err, log.String())
		}
		return nil
	}
}

func createTask(t *testing.T, k8s client.Client, name string) *v1alpha1.CompileTask {
	t.Helper()
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/docs"}, To: "viking://resources/" + name, Skill: "viking://agent/skills/llm-wiki",
			RuntimeName: "fake", Requester: v1alpha1.Requester{Username: "alice"},
		},
	}
	if err := k8s.Create(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	return task
}

func untilComplete(t *testing.T, k8s client.Client, task *v1alpha1.CompileTask, timeout time.Duration) error {
	t.Helper()
	return wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		err := k8s.Get(ctx, client.ObjectKeyFromObject(task), task)
		return task.DerivePhase() == v1alpha1.CompileTaskCompleted, err
	})
}
