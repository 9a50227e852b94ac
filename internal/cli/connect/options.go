// Package connect finds the server that arctl talks to: a facade named by its URL,
// or the API server that a kubeconfig names, where the same API is aggregated.
package connect

import (
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentruntime/operator/internal/cli/exit"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// Options are the flags that every command has.
type Options struct {
	Kubeconfig, Context   string
	Namespace             string
	Server                string
	APIKey, APIKeyFile    string
	CertificateAuthority  string
	InsecureSkipTLSVerify bool
	RequestTimeout        time.Duration
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "the kubeconfig file to use")
	flags.StringVar(&o.Context, "context", "", "the kubeconfig's context to use")
	flags.StringVarP(&o.Namespace, "namespace", "n", "", "the namespace; else the API key's or the kubeconfig's")
	flags.StringVarP(&o.Server, "server", "s", "", "URL of a facade, to use instead of a kubeconfig (env ARCTL_SERVER)")
	flags.StringVar(&o.APIKey, "api-key", "", "API key or Kubernetes token for --server (env ARCTL_API_KEY); other users of this machine can see it here")
	flags.StringVar(&o.APIKeyFile, "api-key-file", "", "file that holds the API key or token for --server")
	flags.StringVar(&o.CertificateAuthority, "certificate-authority", "", "PEM file to check the certificate of --server against")
	flags.BoolVar(&o.InsecureSkipTLSVerify, "insecure-skip-tls-verify", false,
		"don't check the server's certificate, and allow http:// to other machines: whoever is on the way can then read the credentials and forge answers")
	flags.DurationVar(&o.RequestTimeout, "request-timeout", taskapi.DefaultRequestTimeout, "how long one request may take")
}

// Environment is what the program's environment says where flags say nothing.
type Environment struct {
	Server, APIKey string
}

// Complete fills what no flag set from the environment, and checks the whole. A
// flag that picks a kubeconfig wins over a server from the environment.
func (o *Options) Complete(env Environment) error {
	if o.Server == "" && o.Kubeconfig == "" && o.Context == "" {
		o.Server = env.Server
	}
	if err := o.conflict(); err != nil {
		return err
	}
	if o.Server != "" && o.APIKey == "" && o.APIKeyFile == "" {
		o.APIKey = env.APIKey
	}
	return nil
}

// conflict refuses flags that do not go together.
func (o *Options) conflict() error {
	if o.Server == "" && (o.APIKey != "" || o.APIKeyFile != "" || o.CertificateAuthority != "") {
		return exit.Usagef("--api-key, --api-key-file and --certificate-authority are for --server: name the facade's URL with it")
	}
	if o.Server != "" && (o.Kubeconfig != "" || o.Context != "") {
		return exit.Usagef("use either --server or a kubeconfig, not both")
	}
	if o.APIKey != "" && o.APIKeyFile != "" {
		return exit.Usagef("use either --api-key or --api-key-file, not both")
	}
	if o.RequestTimeout <= 0 {
		return exit.Usagef("--request-timeout must be positive")
	}
	return nil
}

// maxKey bounds an API key or token, in bytes.
const maxKey = 64 << 10

// key returns the API key, "" when there is none.
func (o *Options) key() (string, error) {
	key := o.APIKey
	if o.APIKeyFile != "" {
		data, err := os.ReadFile(o.APIKeyFile)
		if err != nil {
			return "", exit.Usagef("read --api-key-file: %w", err)
		}
		key = string(data)
		if strings.TrimSpace(key) == "" {
			return "", exit.Usagef("--api-key-file %s is empty", o.APIKeyFile)
		}
	}
	key = strings.TrimSpace(key)
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", exit.Usagef("the API key is not one line of visible ASCII characters")
	}
	return key, nil
}

// server parses --server. Plain HTTP to another machine needs consent.
func (o *Options) server() (*url.URL, error) {
	u, err := url.Parse(o.Server)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, exit.Usagef("--server must be a URL such as https://facade.example.com:1933")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, exit.Usagef("--server takes no user, query or fragment: credentials go into --api-key-file or ARCTL_API_KEY")
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) && !o.InsecureSkipTLSVerify {
		return nil, exit.Usagef("%s would send the credentials in clear: use https://, or accept that with --insecure-skip-tls-verify", u)
	}
	return u, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
