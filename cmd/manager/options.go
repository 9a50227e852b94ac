package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are the manager's flags.
type options struct {
	namespace           string
	kubeconfig          string
	leaderElect         bool
	identity            string
	metricsAddress      string
	metricsInsecure     bool
	healthAddress       string
	webhookHost         string
	webhookPort         int
	webhookCertDir      string
	webhookCertRotation bool
	firstPollWait       time.Duration
	logLevel            string
	logFormat           string
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.namespace, "namespace", "agentruntime-system",
		"The operator's own namespace: its key ring, gateway tokens and lease are here.")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "",
		"The kubeconfig to use. When empty: $KUBECONFIG, the Pod's service account, or ~/.kube/config.")
	flags.BoolVar(&o.leaderElect, "leader-elect", true,
		"Have only one of several managers run the controllers. All of them serve admission.")
	flags.StringVar(&o.identity, "identity", "",
		"The name under which this manager leads. One that comes back under its old name, such as its Pod's, goes on leading at once; no two that run may share one. When empty, a random name.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		`The address of the metrics, served over TLS to callers who may get /metrics. "0" turns them off.`)
	flags.BoolVar(&o.metricsInsecure, "metrics-insecure", false,
		"Serve the metrics in plain HTTP to anyone. For a loopback address only.")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081",
		"The address of /healthz and /readyz.")
	flags.StringVar(&o.webhookHost, "webhook-host", "",
		"The address that admission listens on. When empty, all.")
	flags.IntVar(&o.webhookPort, "webhook-port", 9443, "The port that admission listens on.")
	flags.StringVar(&o.webhookCertDir, "webhook-cert-dir", "/certs",
		"The folder with admission's tls.crt and tls.key, for --webhook-cert-rotation=false. They are read again when they change.")
	flags.BoolVar(&o.webhookCertRotation, "webhook-cert-rotation", true,
		"Keep admission's certificate in the Secret agentruntime-webhook-certificate, and its authority in the webhook configurations. Turn it off where something else does both, such as cert-manager.")
	flags.DurationVar(&o.firstPollWait, "first-poll-wait", 2*time.Second,
		"How long the poll right after a submit is held on a runtime with durable keys. A task that ends within it costs the API server two writes.")
	flags.StringVar(&o.logLevel, "log-level", "info", "How much to log: error, info, or debug.")
	flags.StringVar(&o.logFormat, "log-format", "json", "How to log: json, or console for people.")
}

// validate lists every flag that can't be used.
func (o *options) validate() error {
	var faults []error
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		faults = append(faults, fmt.Errorf("--namespace %q: %s", o.namespace, problems[0]))
	}
	if o.webhookPort < 1 || o.webhookPort > 65535 {
		faults = append(faults, fmt.Errorf("--webhook-port %d is no port", o.webhookPort))
	}
	if o.firstPollWait < 0 || o.firstPollWait > time.Minute {
		faults = append(faults, fmt.Errorf("--first-poll-wait %s is not within 0s and 1m", o.firstPollWait))
	}
	if _, err := zapcore.ParseLevel(o.logLevel); err != nil {
		faults = append(faults, fmt.Errorf("--log-level %q: use error, info or debug", o.logLevel))
	}
	if o.logFormat != "json" && o.logFormat != "console" {
		faults = append(faults, fmt.Errorf("--log-format %q: use json or console", o.logFormat))
	}
	return errors.Join(faults...)
}

func newCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "manager",
		Short: "Run the controllers and admission webhooks of the Agent Runtime Operator",
		Long: `manager runs the controllers that bring CompileTasks to their end by calling the
executors that AgentRuntimes name, and serves the admission webhooks that stamp
and check new CompileTasks.

Several managers may run: one leads, the others stand by and serve admission.`,
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
