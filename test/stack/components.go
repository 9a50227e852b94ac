package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const gatewaySecret = "agentruntime-gateway-token"

func (s *Stack) startRuntime(ctx context.Context) error {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	s.token = hex.EncodeToString(secret)
	tokenFile := filepath.Join(s.Dir, "gateway-token")
	if err := os.WriteFile(tokenFile, []byte(s.token), 0o600); err != nil {
		return err
	}
	if err := freePorts(ctx, &s.ports.runtime); err != nil {
		return err
	}
	var err error
	if s.cert, err = s.makeCertificate(ctx, "127.0.0.1"); err != nil {
		return err
	}
	flags := []string{
		"--listen-address=" + loopback(s.ports.runtime), "--metrics-address=",
		"--data-dir=" + filepath.Join(s.Dir, "sessions"), "--content-dir=" + s.Content,
		"--gateway-token-file=" + tokenFile, "--tls-cert-file=" + s.cert.certFile, "--tls-key-file=" + s.cert.keyFile,
	}
	if err := s.run("runtime", "runtime", append(flags, s.options.RuntimeFlags...)...); err != nil {
		return err
	}
	return s.untilOK(ctx, trusting(s.cert.authority), "runtime", s.RuntimeURL()+"/readyz")
}

// RuntimeURL is where the built-in executor listens.
func (s *Stack) RuntimeURL() string { return "https://" + loopback(s.ports.runtime) }

// StartManager starts the manager, after StopProcess for example, and waits until
// it is ready.
func (s *Stack) StartManager(ctx context.Context) error {
	kubeconfig, err := s.componentKubeconfig(ctx, "manager")
	if err != nil {
		return err
	}
	if err := freePorts(ctx, &s.ports.managerHealth, &s.ports.managerMetrics); err != nil {
		return err
	}
	flags := []string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + Namespace, "--leader-elect", "--identity=stack", "--log-format=console",
		"--webhook-host=127.0.0.1", "--webhook-port=" + strconv.Itoa(s.ports.webhook),
		"--health-probe-bind-address=" + loopback(s.ports.managerHealth),
		"--metrics-bind-address=" + loopback(s.ports.managerMetrics),
	}
	if err := s.run("manager", "manager", append(flags, s.options.ManagerFlags...)...); err != nil {
		return err
	}
	return s.untilOK(ctx, http.DefaultClient, "manager", "http://"+loopback(s.ports.managerHealth)+"/readyz")
}

// StartFacade starts the facade, after StopProcess for example, and waits until it
// is ready.
func (s *Stack) StartFacade(ctx context.Context) error {
	kubeconfig, err := s.componentKubeconfig(ctx, "facade")
	if err != nil {
		return err
	}
	if err := freePorts(ctx, &s.ports.facadeHealth, &s.ports.facadeMetrics); err != nil {
		return err
	}
	flags := []string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + Namespace, "--aggregated",
		"--listen-address=" + loopback(s.ports.facade),
		"--health-probe-bind-address=" + loopback(s.ports.facadeHealth),
		"--metrics-bind-address=" + loopback(s.ports.facadeMetrics),
	}
	if err := s.run("facade", "facade", append(flags, s.options.FacadeFlags...)...); err != nil {
		return err
	}
	return s.untilOK(ctx, http.DefaultClient, "facade", "http://"+loopback(s.ports.facadeHealth)+"/readyz")
}

// FacadeURL is where the facade listens, under a name that its certificate has.
func (s *Stack) FacadeURL() string { return "https://localhost:" + strconv.Itoa(s.ports.facade) }

// FacadeMetricsURL is where the facade serves its metrics.
func (s *Stack) FacadeMetricsURL() string {
	return "https://" + loopback(s.ports.facadeMetrics) + "/metrics"
}

// FacadeAuthority is the PEM certificate of the facade's authority.
func (s *Stack) FacadeAuthority(ctx context.Context) ([]byte, error) {
	var secret corev1.Secret
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: facadeSecret}, &secret)
	if err != nil {
		return nil, fmt.Errorf("get the facade's certificate: %w", err)
	}
	return secret.Data["ca.crt"], nil
}

// FacadeClient is an HTTP client that trusts the facade's authority.
func (s *Stack) FacadeClient(ctx context.Context) (*http.Client, error) {
	authority, err := s.FacadeAuthority(ctx)
	if err != nil {
		return nil, err
	}
	return trusting(authority), nil
}

// componentKubeconfig holds a token of a component's ServiceAccount.
func (s *Stack) componentKubeconfig(ctx context.Context, component string) (string, error) {
	token, err := s.ServiceAccountToken(ctx, Namespace, "agentruntime-"+component)
	if err != nil {
		return "", err
	}
	return s.TokenKubeconfig("component-"+component, token)
}

// registerRuntime applies the sample AgentRuntime with this machine's address and
// the authority of the executor's certificate, and waits until the manager says
// that it answers.
func (s *Stack) registerRuntime(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: gatewaySecret},
		Type:       v1alpha1.SecretTypeGatewayToken, StringData: map[string]string{"token": s.token},
	}
	if err := s.Client.Create(ctx, secret); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(s.root, "config", "samples", "agentruntime.yaml"))
	if err != nil {
		return err
	}
	var runtime v1alpha1.AgentRuntime
	if err := yaml.UnmarshalStrict(text, &runtime); err != nil {
		return fmt.Errorf("read the sample AgentRuntime: %w", err)
	}
	runtime.Spec.URL, runtime.Spec.CABundle = s.RuntimeURL(), s.cert.authority
	if store := runtime.Spec.ContentStore; store != nil {
		store.URL, store.CABundle = s.RuntimeURL(), s.cert.authority
	}
	if err := s.Client.Create(ctx, &runtime); err != nil {
		return err
	}
	return s.Until(ctx, "AgentRuntime "+runtime.Name+" to be Ready", func() (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(&runtime), &runtime)
		return apimeta.IsStatusConditionTrue(runtime.Status.Conditions, v1alpha1.ConditionReady), err
	})
}
