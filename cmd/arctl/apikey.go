package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/agentruntime/operator/internal/cli/exit"
	"github.com/agentruntime/operator/internal/cli/keys"
	"github.com/agentruntime/operator/internal/cli/output"
)

// keyOptions are what the apikey commands share.
type keyOptions struct {
	operatorNamespace string
	format            output.Format
}

func (a *app) apikey() *cobra.Command {
	var o keyOptions
	command := group(&cobra.Command{
		Use: "apikey", Aliases: []string{"apikeys"}, Short: "Create, list and revoke API keys",
		Long: `API keys are Secrets in the operator's namespace. Who may create Secrets there can
make a key for any user but those that are never served, such as the group system:masters.`,
	})
	command.PersistentFlags().StringVar(&o.operatorNamespace, "operator-namespace", "agentruntime-system", "the namespace that the operator runs in")
	command.AddCommand(a.keyCreate(&o), a.keyList(&o), a.keyRevoke(&o))
	return command
}

// secrets is the client of the operator namespace's Secrets.
func (a *app) secrets(o *keyOptions) (keys.Secrets, error) {
	if a.options.Server != "" {
		return nil, errNeedsKubeconfig("apikey")
	}
	config, client, err := a.connector().Kubernetes()
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client of Secrets: %w", err)
	}
	return core.Secrets(o.operatorNamespace), nil
}

func errNeedsKubeconfig(command string) error {
	return exit.Usagef("%s works through a kubeconfig: leave --server and ARCTL_SERVER out, or pick one with --kubeconfig", command)
}

func (a *app) keyCreate(o *keyOptions) *cobra.Command {
	var request keys.Request
	var forward string
	command := &cobra.Command{
		Use: "create --as-user USER --namespace NAMESPACE", Short: "Create an API key and print it, once", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			request.Namespace = a.options.Namespace
			return a.runKeyCreate(command.Context(), o, request, forward)
		},
	}
	flags := command.Flags()
	flags.StringVar(&request.User, "as-user", "", "the Kubernetes user that the key stands for, such as system:serviceaccount:team-a:ci")
	flags.StringArrayVar(&request.Groups, "as-group", nil, "a group of that user; may be repeated")
	flags.DurationVar(&request.Lifetime, "expires", 0, "how long the key works, such as 720h; 0 means for ever")
	flags.StringVar(&forward, "forward-key-file", "", "file with the user's OpenViking key, to send on with each task; - reads standard input")
	flags.StringVar(&request.Description, "description", "", "a free text that apikey list shows")
	output.AddFlag(flags, &o.format, output.JSON, output.YAML)
	return command
}

func (a *app) runKeyCreate(ctx context.Context, o *keyOptions, request keys.Request, forward string) error {
	secrets, err := a.secrets(o)
	if err != nil {
		return err
	}
	if forward != "" {
		if request.ForwardKey, err = keys.ReadSecret(forward, a.in); err != nil {
			return err
		}
	}
	made, err := keys.Create(ctx, secrets, o.operatorNamespace, request, time.Now())
	if err != nil {
		return err
	}
	if o.format != output.Human {
		return output.Value(a.out, o.format, made)
	}
	if _, err := fmt.Fprintln(a.out, made.Secret); err != nil {
		return fmt.Errorf("print the key, which is lost now; revoke %s: %w", made.Name, err)
	}
	a.hint(fmt.Sprintf("this is the key of %s in namespace %s; it can't be shown again. Revoke it with: %s apikey revoke %s",
		made.User, made.Namespace, a.name, made.Name))
	return nil
}

func (a *app) keyList(o *keyOptions) *cobra.Command {
	command := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List API keys", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			secrets, err := a.secrets(o)
			if err != nil {
				return err
			}
			found, err := keys.List(command.Context(), secrets)
			if err != nil {
				return err
			}
			return keys.Print(a.out, o.format, found, time.Now())
		},
	}
	output.AddFlag(command.Flags(), &o.format, taskFormats...)
	return command
}

func (a *app) keyRevoke(o *keyOptions) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use: "revoke NAME|PREFIX", Short: "Revoke an API key", Args: cobra.MaximumNArgs(1),
		Long: `Revokes the API key of a name that apikey list shows, or of the beginning of one.
Who has the key itself, and not its name, gives it by --key-file.`,
		RunE: func(command *cobra.Command, arguments []string) error {
			pick, err := a.pick(arguments, file)
			if err != nil {
				return err
			}
			secrets, err := a.secrets(o)
			if err != nil {
				return err
			}
			name, err := keys.Revoke(command.Context(), secrets, pick)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, name+" revoked; it is refused within 20 s")
			return nil
		},
	}
	command.Flags().StringVar(&file, "key-file", "", "file with the key to revoke; - reads standard input")
	return command
}

// pick is the key that a revoke names in one of two ways.
func (a *app) pick(arguments []string, file string) (string, error) {
	if (len(arguments) == 1) == (file != "") {
		return "", exit.Usagef("name the API key, or give it with --key-file")
	}
	if file == "" {
		return arguments[0], nil
	}
	key, err := keys.ReadSecret(file, a.in)
	if err != nil {
		return "", err
	}
	return keys.NameOf(key)
}
