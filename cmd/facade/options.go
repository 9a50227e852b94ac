package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/agentruntime/operator/internal/access/impersonate"
)

// options are the facade's flags.
type options struct {
	namespace        string
	defaultNamespace string
	kubeconfig       string
	audience         string

	listenAddress     string
	insecureHTTP      bool
	tlsCertFile       string
	tlsKeyFile        string
	certificateSecret string
	certificateHosts  []string
	aggregated        bool

	metricsAddress  string
	metricsInsecure bool
	healthAddress   string

	corsOrigins      []string
	rateLimit        float64
	rateBurst        int
	maxInFlight      int
	impersonateExtra []string
	drainTimeout     time.Duration

	logLevel  string
	logFormat string
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.namespace, "namespace", "agentruntime-system",
		"The operator's own namespace: its key ring, API keys, gateway tokens and the facade's certificate are here.")
	flags.StringVar(&o.defaultNamespace, "default-namespace", "default",
		"The namespace of a request that names none by its URL, its API key, X-OpenViking-Account or its ServiceAccount.")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "",
		"The kubeconfig to use. When empty: $KUBECONFIG, the Pod's service account, or ~/.kube/config.")
	flags.StringVar(&o.audience, "audience", "agentruntime-facade",
		"The audience of tokens made for the facade. Tokens for the API server are taken too.")

	flags.StringVar(&o.listenAddress, "listen-address", ":1933", "The address of the REST API.")
	flags.BoolVar(&o.insecureHTTP, "insecure-http", false,
		"Serve the REST API in plain HTTP. Only for a loopback --listen-address; any other is refused.")
	flags.StringVar(&o.tlsCertFile, "tls-cert-file", "",
		"The file with the certificate to serve, read again when it changes. When empty, the facade keeps one of its own in --certificate-secret.")
	flags.StringVar(&o.tlsKeyFile, "tls-key-file", "", "The file with the key of --tls-cert-file.")
	flags.StringVar(&o.certificateSecret, "certificate-secret", "agentruntime-facade-certificate",
		"The Secret in --namespace that holds the facade's own certificate and its authority, which it makes and renews. The Secret must exist; it may be empty.")
	flags.StringSliceVar(&o.certificateHosts, "certificate-hosts", nil,
		"Further DNS names that the facade's own certificate is for. It is always for the Service's names and localhost.")
	flags.BoolVar(&o.aggregated, "aggregated", false,
		"Serve the REST API to the API server's aggregator too, as compile.agentruntime.dev/v1. Needs the component config/components/aggregated-api.")

	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		`The address of the metrics, served over TLS to callers who may get /metrics. "0" turns them off.`)
	flags.BoolVar(&o.metricsInsecure, "metrics-insecure", false,
		"Serve the metrics in plain HTTP to anyone. For a loopback address only.")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "The address of /healthz and /readyz.")

	flags.StringSliceVar(&o.corsOrigins, "cors-allowed-origins", nil,
		`The origins, such as https://app.example.com, whose pages may call the REST API from a browser; "*" stands for all. None by default.`)
	flags.Float64Var(&o.rateLimit, "rate-limit", 50, "The requests a second that one caller may send.")
	flags.IntVar(&o.rateBurst, "rate-burst", 100, "The requests that one caller may send at once, after a pause.")
	flags.IntVar(&o.maxInFlight, "max-in-flight", 64, "The requests of one caller that may be under way at a time, waits and streams included.")
	flags.StringSliceVar(&o.impersonateExtra, "impersonate-extra", impersonate.DefaultExtras(),
		"The extra attributes of users that the facade passes on when it writes as them, and has the right to. A user with any other can read, and not write.")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 20*time.Second,
		"How long requests under way may take when the facade stops.")

	flags.StringVar(&o.logLevel, "log-level", "info", "How much to log: error, info, or debug.")
	flags.StringVar(&o.logFormat, "log-format", "json", "How to log: json, or text for people.")
}

// validate lists every flag that can't be used.
func (o *options) validate() error {
	faults := []error{
		label("--namespace", o.namespace), label("--default-namespace", o.defaultNamespace),
		o.validateListener(), o.validateLimits(),
	}
	if _, err := parseLevel(o.logLevel); err != nil {
		faults = append(faults, err)
	}
	if o.logFormat != "json" && o.logFormat != "text" {
		faults = append(faults, fmt.Errorf("--log-format %q: use json or text", o.logFormat))
	}
	return errors.Join(faults...)
}

func label(flag, value string) error {
	if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
		return fmt.Errorf("%s %q: %s", flag, value, problems[0])
	}
	return nil
}

func (o *options) validateListener() error {
	host, _, err := net.SplitHostPort(o.listenAddress)
	switch {
	case err != nil:
		return fmt.Errorf("--listen-address %q: use host:port", o.listenAddress)
	case (o.tlsCertFile == "") != (o.tlsKeyFile == ""):
		return errors.New("--tls-cert-file and --tls-key-file go together")
	case o.insecureHTTP && !isLoopback(host):
		return fmt.Errorf("--insecure-http: %q is no loopback address, and credentials must not cross a network in plain text", o.listenAddress)
	case o.insecureHTTP && (o.tlsCertFile != "" || o.aggregated):
		return errors.New("--insecure-http goes neither with --tls-cert-file nor with --aggregated")
	}
	return nil
}

func (o *options) validateLimits() error {
	if o.rateLimit <= 0 || o.rateBurst < 1 || o.maxInFlight < 1 {
		return errors.New("--rate-limit, --rate-burst and --max-in-flight must be positive")
	}
	if host, _, err := net.SplitHostPort(o.metricsAddress); o.metricsInsecure && (err != nil || !isLoopback(host)) {
		return fmt.Errorf("--metrics-insecure: %q is no loopback address", o.metricsAddress)
	}
	if o.drainTimeout < 0 || o.drainTimeout > 10*time.Minute {
		return fmt.Errorf("--drain-timeout %s is not within 0s and 10m", o.drainTimeout)
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && address.IsLoopback())
}

func newCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "facade",
		Short: "Serve the REST API of the Agent Runtime Operator",
		Long: `facade serves OpenViking's Compile and Tasks API over CompileTasks. Callers show a
token of the cluster or an API key; what they may do is what Kubernetes RBAC lets
them. It keeps no state: run as many as you like.

Routes are described by /openapi.json.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(command.Context(), *o)
		},
	}
	o.addFlags(command.Flags())
	return command
}
