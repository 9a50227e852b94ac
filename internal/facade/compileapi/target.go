package compileapi

import (
	"context"
	"strings"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// target is what a new task runs on, and with whose credential.
type target struct {
	runtime *v1alpha1.AgentRuntime
	// forward is the key to send on; empty where the runtime wants none.
	forward access.Secret
	// serviceAccount is the caller's own ServiceAccount, where the runtime wants a
	// token of one.
	serviceAccount string
}

// target takes the steps 7 and 8 of B.3.
func (a *API) target(ctx context.Context, info *httpapi.Info) (target, error) {
	runtime, err := a.defaultRuntime(ctx)
	if err != nil {
		return target{}, err
	}
	if runtime == nil {
		return target{}, wire.Unavailable("Compile is unavailable: no AgentRuntime is marked as the default one",
			serviceCompile, "compile_api.base_url is not configured")
	}
	return credentialsFor(runtime, info)
}

func (a *API) defaultRuntime(ctx context.Context) (*v1alpha1.AgentRuntime, error) {
	runtime, err := a.runtimes.Default(ctx)
	if err != nil {
		return nil, storeError("find the default AgentRuntime", err)
	}
	return runtime, nil
}

func credentialsFor(runtime *v1alpha1.AgentRuntime, info *httpapi.Info) (target, error) {
	mode := v1alpha1.CredentialsNone
	if runtime.Spec.Credentials != nil {
		mode = runtime.Spec.Credentials.Mode
	}
	switch mode {
	case v1alpha1.CredentialsSecret:
		if info.Caller.Forward == "" {
			return target{}, wire.Errorf(wire.CodeUnauthenticated,
				"the executor needs an OpenViking key of yours: use an API key that was created with one to forward")
		}
		return target{runtime: runtime, forward: info.Caller.Forward}, nil
	case v1alpha1.CredentialsServiceAccountToken:
		name := ownServiceAccount(info.Caller.User.Username, info.Namespace)
		if name == "" {
			return target{}, wire.Errorf(wire.CodeUnauthenticated,
				"the executor needs a token of a ServiceAccount: call as a ServiceAccount of namespace %q", info.Namespace)
		}
		return target{runtime: runtime, serviceAccount: name}, nil
	default:
		return target{runtime: runtime}, nil
	}
}

// ownServiceAccount is the name of the ServiceAccount that the user is, "" when they
// are none of the namespace.
func ownServiceAccount(username, namespace string) string {
	name, ok := strings.CutPrefix(username, "system:serviceaccount:"+namespace+":")
	if !ok || strings.Contains(name, ":") {
		return ""
	}
	return name
}
