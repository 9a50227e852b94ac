package executor

import (
	"encoding/json"
	"fmt"
)

// Storable returns JSON that the API server will store, or an error that says what
// it would refuse.
func Storable(raw json.RawMessage) (json.RawMessage, error) {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("not storable: %w", err)
	}
	return raw, nil
}
