// Colours by distance, after viridis: told apart with every kind of colour vision, and in grey. Far commuters stand out:
// they are dark on a light ground and bright on a dark one.

const VIRIDIS = [
  [68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
];

/** A colour of the scale, 0 to 1, as [red, green, blue] of 0 to 255. */
export function viridis(share) {
  const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[low].map((value, i) => Math.round(value + (VIRIDIS[low + 1][i] - value) * (at - low)));
}

/** One colour for every class of distance, nearest first. */
export function distanceColours(count, dark) {
  const [near, far] = dark ? [0.42, 1] : [0.72, 0];
  return Array.from({ length: count }, (_, c) => viridis(near + ((far - near) * c) / Math.max(count - 1, 1)));
}

export const cssColour = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;
