// The data inside the page: typed arrays, one after the other, compressed with gzip and written as base64.

const TYPES = { Uint8Array, Uint16Array, Uint32Array, Int32Array, Float32Array, Float64Array };

/** Bytes of a base64 text. */
export function bytesOfBase64(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** What gzip had packed. */
export async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Named arrays of a packed text. `directory` lists {name, type, offset, length}; type "json" is a text of JSON. */
export async function decodeArrays(base64, directory) {
  const bytes = await unpack(bytesOfBase64(base64));
  const arrays = {};
  for (const { name, type, offset, length } of directory) {
    if (type === "json") {
      arrays[name] = JSON.parse(new TextDecoder().decode(bytes.subarray(offset, offset + length)));
    } else {
      const Kind = TYPES[type];
      if (!Kind) throw new Error(`unknown type of array: ${type}`);
      arrays[name] = new Kind(bytes.buffer, bytes.byteOffset + offset, length);
    }
  }
  return arrays;
}
