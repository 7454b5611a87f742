package bbolt

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	terrace "github.com/terrace-db/terrace/bindings/go"
	"go.etcd.io/bbolt/errors"
)

// An archive is a database in one file, as Tx.WriteTo writes it and Open accepts it:
//
//	8 bytes    archiveMagic
//	32 bytes   the encoded meta
//	records    length of the key, key, length of the value, value; in key order
//	1 byte     0, which is no length of a key
//	4 bytes    CRC-32C of all bytes before it
//
// Lengths are unsigned varints, and the CRC is big-endian.
const (
	archiveMagic = "bboltTrA"
	metaBytes    = 32
	emptyArchive = uint64(len(archiveMagic)) + metaBytes + 1 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordBytes returns the length of the record of an entry.
func recordBytes(full []byte, e entry) uint64 {
	value := 1 + len(e.value)
	if e.isBucket {
		value = 17
	}
	return uint64(varintBytes(len(full)) + len(full) + varintBytes(value) + value)
}

func varintBytes(length int) int {
	var buffer [binary.MaxVarintLen64]byte
	return binary.PutUvarint(buffer[:], uint64(length))
}

// WriteTo writes the database, as the transaction sees it without its own changes, to w. The
// result can be opened. A read-only transaction writes Size bytes.
func (tx *Tx) WriteTo(w io.Writer) (int64, error) {
	if tx.db == nil {
		return 0, errors.ErrTxClosed
	}
	committed, err := readMeta(tx.snapshot)
	if err != nil {
		return 0, err
	}
	it, err := tx.snapshot.NewIterator(terrace.Prefix([]byte{tagEntry}), nil)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	sum := crc32.New(castagnoli)
	counted := &counter{to: w}
	out := bufio.NewWriterSize(io.MultiWriter(counted, sum), 64<<10)
	out.WriteString(archiveMagic)
	out.Write(committed.encode())
	if err := out.Flush(); err != nil {
		return counted.bytes, fmt.Errorf("meta 0 copy: %w", err) // bbolt's text
	}
	for it.Next() {
		out.Write(binary.AppendUvarint(nil, uint64(len(it.Key()))))
		out.Write(it.Key())
		out.Write(binary.AppendUvarint(nil, uint64(len(it.Value()))))
		if _, err := out.Write(it.Value()); err != nil {
			return counted.bytes, err
		}
	}
	out.WriteByte(0)
	if err := it.Error(); err != nil {
		return counted.bytes, err
	}
	if err := out.Flush(); err != nil {
		return counted.bytes, err
	}
	_, err = counted.Write(sum.Sum(nil))
	return counted.bytes, err
}

// A counter counts the bytes that it passes on.
type counter struct {
	to    io.Writer
	bytes int64
}

func (c *counter) Write(bytes []byte) (int, error) {
	n, err := c.to.Write(bytes)
	c.bytes += int64(n)
	return n, err
}

// Copy writes the database to w; see WriteTo.
func (tx *Tx) Copy(w io.Writer) error {
	_, err := tx.WriteTo(w)
	return err
}

// CopyFile writes the database to a new or existing file; see WriteTo. The file survives a power
// cut when the call returns.
func (tx *Tx) CopyFile(path string, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err = tx.WriteTo(file); err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// readArchive puts the contents of an archive into an empty store. It fails with ErrInvalid for
// another file, and with ErrChecksum for a damaged archive; the store is then of no use.
func readArchive(from io.Reader, store *terrace.DB) error {
	sum := crc32.New(castagnoli)
	in := &archiveReader{in: bufio.NewReaderSize(from, 64<<10), sum: sum}
	head := make([]byte, len(archiveMagic)+metaBytes)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:len(archiveMagic)]) != archiveMagic {
		return errors.ErrInvalid
	}
	var batch terrace.Batch
	batch.Put(metaKey, head[len(archiveMagic):])
	for {
		key, err := in.slice(entryHead + MaxKeySize)
		if err == nil && len(key) == 0 {
			break
		}
		value, valueErr := in.slice(1 + MaxValueSize)
		if err != nil || valueErr != nil {
			return fmt.Errorf("%w: the archive is cut short", errors.ErrChecksum)
		}
		batch.Put(key, value)
		if batch.Size() > 1<<20 {
			if err := store.Write(&batch, nil); err != nil {
				return err
			}
			batch.Clear()
		}
	}
	want := sum.Sum32()
	stored := make([]byte, 4)
	if _, err := io.ReadFull(in, stored); err != nil || binary.BigEndian.Uint32(stored) != want {
		return errors.ErrChecksum
	}
	return store.Write(&batch, terrace.Sync)
}

// An archiveReader sums the bytes that it reads.
type archiveReader struct {
	in  *bufio.Reader
	sum interface{ Write([]byte) (int, error) }
}

func (r *archiveReader) Read(to []byte) (int, error) {
	n, err := r.in.Read(to)
	r.sum.Write(to[:n])
	return n, err
}

func (r *archiveReader) ReadByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err == nil {
		r.sum.Write([]byte{b})
	}
	return b, err
}

// slice reads a length, which may not exceed a limit, and so many bytes. It allocates no more than
// the file has, even if the length is damaged.
func (r *archiveReader) slice(limit uint64) ([]byte, error) {
	length, err := binary.ReadUvarint(r)
	if err != nil || length > limit {
		return nil, errors.ErrChecksum
	}
	slice, err := io.ReadAll(io.LimitReader(r, int64(length)))
	if err == nil && uint64(len(slice)) < length {
		err = io.ErrUnexpectedEOF
	}
	return slice, err
}
