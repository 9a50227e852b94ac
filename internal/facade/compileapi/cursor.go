package compileapi

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/tasks"
	"github.com/agentruntime/operator/internal/facade/wire"
	"github.com/agentruntime/operator/internal/sealed"
)

const (
	// maxCursorBytes bounds a cursor that is sent (C.5).
	maxCursorBytes = 2048
	// cursorPurpose keeps the signatures of cursors apart from all others.
	cursorPurpose = "compile-api-cursor"
)

func errCursor() *wire.Error {
	return queryFault("cursor", "is not a cursor of this list; start again without one")
}

// signCursor makes the cursor that goes on after a place. It fits only its own
// caller, namespace and filters. It holds nothing that the page has not shown.
func (a *API) signCursor(ctx context.Context, info *httpapi.Info, request listRequest, after tasks.Place) (string, error) {
	ring, err := a.keys.Ring(ctx)
	if err != nil {
		return "", keyRingError(err)
	}
	place := strconv.FormatInt(after.Created.UnixMicro(), 10) + " " + after.ID
	mac := ring.Mac(cursorPurpose, cursorParts(info, request, place)...)
	return base64.RawURLEncoding.EncodeToString([]byte(place)) + "." + base64.RawURLEncoding.EncodeToString([]byte(mac)), nil
}

// openCursor returns the place that a cursor of this caller and these filters goes on
// after.
func (a *API) openCursor(ctx context.Context, info *httpapi.Info, request listRequest) (tasks.Place, error) {
	ring, err := a.keys.Ring(ctx)
	if err != nil {
		return tasks.Place{}, keyRingError(err)
	}
	first, second, _ := strings.Cut(request.cursor, ".")
	place, placeErr := base64.RawURLEncoding.DecodeString(first)
	mac, macErr := base64.RawURLEncoding.DecodeString(second)
	if placeErr != nil || macErr != nil || !fits(ring, string(mac), info, request, string(place)) {
		return tasks.Place{}, errCursor()
	}
	created, id, _ := strings.Cut(string(place), " ")
	micros, err := strconv.ParseInt(created, 10, 64)
	if err != nil {
		return tasks.Place{}, told(errCursor(), "read a cursor", err)
	}
	return tasks.Place{Created: time.UnixMicro(micros).UTC(), ID: id}, nil
}

// fits checks the signature. One under a key that the ring has lost fits nothing.
func fits(ring *sealed.KeyRing, mac string, info *httpapi.Info, request listRequest, place string) bool {
	same, err := ring.MatchMac(mac, cursorPurpose, cursorParts(info, request, place)...)
	return err == nil && same
}

func cursorParts(info *httpapi.Info, request listRequest, place string) [][]byte {
	parts := make([][]byte, 0, 8)
	for _, part := range []string{
		info.Namespace, info.Caller.User.Username, request.taskType, request.status, request.resourceID, request.search,
		strconv.FormatBool(request.namespace), place,
	} {
		parts = append(parts, []byte(part))
	}
	return parts
}
