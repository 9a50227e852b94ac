package v1alpha1

import (
	"strings"
	"testing"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func TestCheckRequesterBoundsTheWhole(t *testing.T) {
	groups := func(n int) v1alpha1.Requester {
		requester := v1alpha1.Requester{Username: "alice"}
		for range n {
			requester.Groups = append(requester.Groups, strings.Repeat("g", maxRequesterText))
		}
		return requester
	}
	if faults := checkRequester(groups(200), requesterPath()); len(faults) > 0 {
		t.Errorf("200 long groups are refused: %v", faults)
	}
	faults := checkRequester(groups(maxGroups), requesterPath())
	if len(faults) != 1 || !strings.Contains(faults[0].Error(), "together take more than") {
		t.Errorf("a user of %d long groups is answered %v", maxGroups, faults)
	}
}
