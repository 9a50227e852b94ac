package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Authorizer answers whether a user may do something.
type Authorizer interface {
	// Allowed reports whether user may do what attrs say, and the authorizer's
	// own reason, which may name roles and is for logs, not for users. An error
	// means that nobody could say; the caller must not go on.
	Allowed(ctx context.Context, user v1alpha1.Requester, attrs authorizationv1.ResourceAttributes) (bool, string, error)
}

// SubjectAccessReviews is an Authorizer that asks the API server each time.
type SubjectAccessReviews struct {
	reviews authorizationclient.SubjectAccessReviewInterface
}

var _ Authorizer = (*SubjectAccessReviews)(nil)

// NewSubjectAccessReviews returns an Authorizer over the client, which needs the
// verb create on subjectaccessreviews of authorization.k8s.io.
func NewSubjectAccessReviews(client authorizationclient.SubjectAccessReviewsGetter) *SubjectAccessReviews {
	return &SubjectAccessReviews{reviews: client.SubjectAccessReviews()}
}

// Allowed implements Authorizer with one SubjectAccessReview. A denial wins over
// an allowance, and a user without a name is never allowed anything.
func (s *SubjectAccessReviews) Allowed(ctx context.Context, user v1alpha1.Requester, attrs authorizationv1.ResourceAttributes) (bool, string, error) {
	if user.Username == "" {
		return false, "the user has no name", nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &attrs,
		User:               user.Username,
		UID:                user.UID,
		Groups:             user.Groups,
		Extra:              extraOf(user),
	}}
	answer, err := s.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("review access to %s %s: %w", attrs.Verb, attrs.Resource, err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, answer.Status.Reason, nil
}

func extraOf(user v1alpha1.Requester) map[string]authorizationv1.ExtraValue {
	if len(user.Extra) == 0 {
		return nil
	}
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return extra
}
