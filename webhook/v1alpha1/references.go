package v1alpha1

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

// reviewTimeout bounds the access reviews of one request, within the webhook's
// own timeoutSeconds so that the caller hears why.
const reviewTimeout = 4 * time.Second

// reference is one thing a task names and its requester must be allowed to use.
type reference struct {
	path *field.Path
	name string
	ask  func(ctx context.Context, authorizer access.Authorizer, user v1alpha1.Requester, namespace, name string) (access.Decision, error)
}

// checkReferences asks, all at a time, whether the requester may use what the
// task names. An error means that it could not be found out.
func checkReferences(ctx context.Context, authorizer access.Authorizer, requester v1alpha1.Requester, namespace string, spec *v1alpha1.CompileTaskSpec) (field.ErrorList, error) {
	path := field.NewPath("spec")
	references := []reference{
		{path.Child("runtimeName"), spec.RuntimeName, access.CanUseRuntime},
		{path.Child("credentialsSecretName"), spec.CredentialsSecretName, access.CanGetSecret},
		{path.Child("serviceAccountName"), spec.ServiceAccountName, access.CanCreateToken},
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	decisions := make([]access.Decision, len(references))
	for i, ref := range references {
		if ref.name == "" {
			decisions[i].Allowed = true
			continue
		}
		group.Go(func() (err error) {
			decisions[i], err = ref.ask(ctx, authorizer, requester, namespace, ref.name)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var denials field.ErrorList
	for i, ref := range references {
		if !decisions[i].Allowed {
			denials = append(denials, field.Forbidden(ref.path, decisions[i].Message).WithOrigin(originPermission))
		}
	}
	return denials, nil
}
