package connect

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/agentruntime/operator/internal/cli/exit"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// Connector makes the clients that the commands use. Options must be complete.
type Connector struct {
	Options Options
	// UserAgent names the program to servers.
	UserAgent string
	// Warn tells the user of something that is risky, once.
	Warn func(text string)
}

// Direct reports whether a facade is named by its URL.
func (c *Connector) Direct() bool { return c.Options.Server != "" }

// Tasks makes the client of the Compile and Tasks API.
func (c *Connector) Tasks() (*taskapi.Client, error) {
	if !c.Direct() {
		return c.aggregated()
	}
	base, err := c.Options.server()
	if err != nil {
		return nil, err
	}
	key, err := c.Options.key()
	if err != nil {
		return nil, err
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	return taskapi.New(taskapi.Options{
		Base: base, Namespace: c.Options.Namespace, APIKey: key, Transport: transport,
		UserAgent: c.UserAgent, RequestTimeout: c.Options.RequestTimeout,
	}), nil
}

// transport is the one for --server: its TLS is the flags' own.
func (c *Connector) transport() (http.RoundTripper, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Options.InsecureSkipTLSVerify {
		c.Warn("the server's identity is not checked: whoever is on the way can read the credentials")
		settings.InsecureSkipVerify = true
	}
	if file := c.Options.CertificateAuthority; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, exit.Usagef("read --certificate-authority: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, exit.Usagef("--certificate-authority %s holds no PEM certificate", file)
		}
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, ForceAttemptHTTP2: true}
	return transport, nil
}

func (c *Connector) aggregated() (*taskapi.Client, error) {
	config, namespace, err := c.kubeconfig()
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig's server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig's credentials: %w", err)
	}
	return taskapi.New(taskapi.Options{
		Base: &url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path}, Aggregated: true, Namespace: namespace,
		Transport: transport, UserAgent: c.UserAgent, RequestTimeout: c.Options.RequestTimeout,
	}), nil
}

// Kubernetes returns the kubeconfig's client configuration, and an HTTP client of
// its credentials that follows no redirect with them.
func (c *Connector) Kubernetes() (*rest.Config, *http.Client, error) {
	config, _, err := c.kubeconfig()
	if err != nil {
		return nil, nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("use the kubeconfig's credentials: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return config, client, nil
}

// kubeconfig also returns the namespace that is meant: the flag's, else the
// context's, else "default".
func (c *Connector) kubeconfig() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Options.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Options.Context}
	overrides.Context.Namespace = c.Options.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", exit.Usagef("there is no kubeconfig: name one with --kubeconfig, or a facade with --server")
	}
	if err != nil {
		return nil, "", exit.Usagef("read the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", exit.Usagef("read the kubeconfig's namespace: %w", err)
	}
	if c.Options.InsecureSkipTLSVerify {
		c.Warn("the server's identity is not checked: whoever is on the way can read the credentials")
		config.Insecure = true
		config.CAData, config.CAFile = nil, ""
	}
	config.UserAgent = c.UserAgent
	config.Timeout = c.Options.RequestTimeout
	return config, namespace, nil
}
