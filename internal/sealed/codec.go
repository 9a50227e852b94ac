package sealed

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// windowBytes is zstd's window: no match reaches further back than a whole body.
const windowBytes = MaxPlaintext

// codec compresses and decompresses whole bodies. Its two halves are safe for
// concurrent use, start no goroutines, and keep the tables of at most
// codecConcurrency calls at a time; further calls wait.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

const codecConcurrency = 4

func newCodec() (*codec, error) {
	encoder, err := zstd.NewWriter(nil,
		zstd.WithEncoderConcurrency(codecConcurrency),
		zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(windowBytes),
		// GCM authenticates every byte, so zstd's own checksum adds nothing.
		zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("make encoder: %w", err)
	}
	decoder, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(codecConcurrency),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxPlaintext),
		zstd.WithDecoderMaxWindow(windowBytes),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	return &codec{encoder: encoder, decoder: decoder}, nil
}

func (c *codec) compress(plaintext []byte) []byte {
	// A typical JSON body shrinks to a third; append grows it when not.
	return c.encoder.EncodeAll(plaintext, make([]byte, 0, len(plaintext)/2+64))
}

// decompress returns the body only when it has exactly size bytes. The output
// never outgrows size by more than a byte, whatever the input claims.
func (c *codec) decompress(compressed []byte, size int) ([]byte, error) {
	plaintext, err := c.decoder.DecodeAll(compressed, make([]byte, 0, size+1))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w: %w", ErrUnreadable, err)
	}
	if len(plaintext) != size {
		return nil, fmt.Errorf("decompress: size differs: %w", ErrUnreadable)
	}
	return plaintext, nil
}
