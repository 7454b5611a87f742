package terrace

import "encoding/binary"

// Length of the two numbers before each pair of a chunk, in bytes.
const pairHead = 8

// A chunk is a part of a scan in Go memory: pairs in the order of the scan, as terrace_iter_read
// copies them, of which one is the current pair.
type chunk struct {
	buffer   []byte
	size     int   // bytes of the buffer that the last read could use
	backward bool  // the direction of the scan
	left     int   // pairs after the current one
	starts   []int // offsets of the pairs up to the current one
	end      int   // offset behind the current pair

	key, value []byte // the current pair, within the buffer
}

// reserve returns a buffer of size bytes for a read. The read may still use the old key, even if it
// is within the buffer.
func (c *chunk) reserve(size int) []byte {
	c.size = size
	if cap(c.buffer) < size {
		c.buffer = make([]byte, size)
	}
	return c.buffer[:size]
}

// begin moves to the first of the pairs that were read. There is at least one.
func (c *chunk) begin(pairs int) {
	c.left, c.starts, c.end = pairs, c.starts[:0], 0
	c.advance()
}

// clear removes all pairs.
func (c *chunk) clear() { *c = chunk{} }

// advance moves to the next pair of the chunk, and returns whether there is one.
func (c *chunk) advance() bool {
	if c.left == 0 {
		return false
	}
	c.left--
	c.starts = append(c.starts, c.end)
	c.decode(c.end)
	return true
}

// retreat moves to the pair before the current one, and returns whether there is one.
func (c *chunk) retreat() bool {
	last := len(c.starts) - 1
	if last < 1 {
		return false
	}
	c.left++
	c.starts = c.starts[:last]
	c.decode(c.starts[last-1])
	return true
}

// decode makes the pair at an offset the current one.
func (c *chunk) decode(at int) {
	pair := c.buffer[:cap(c.buffer)][at:]
	key := pairHead + int(binary.NativeEndian.Uint32(pair))
	end := key + int(binary.NativeEndian.Uint32(pair[4:]))
	c.key, c.value = pair[pairHead:key:key], pair[key:end:end]
	c.end = at + end
}
