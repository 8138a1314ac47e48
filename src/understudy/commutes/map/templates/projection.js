// From latitude and longitude to a flat map and back.
//
// Lambert's azimuthal equal-area projection about the middle of the places: equal numbers of dots per square look
// equally dense, and since it works with sines and cosines the date line is a line like any other.

export const KM_PER_MILE = 1.609344;
export const EARTH_KM = 3958.8 * KM_PER_MILE; // the radius the package measures commutes with
const RADIANS = Math.PI / 180;
const FAR = 0.02; // the share of weight at either end that counts as far away
const MUCH = 1.6;

/** The middle of places on the sphere, as [latitude, longitude]; places that cancel out give [0, 0]. */
export function middleOf(latitudes, longitudes) {
  let x = 0;
  let y = 0;
  let z = 0;
  for (let i = 0; i < latitudes.length; i += 1) {
    const latitude = latitudes[i] * RADIANS;
    const longitude = longitudes[i] * RADIANS;
    if (Number.isNaN(latitude) || Number.isNaN(longitude)) continue;
    x += Math.cos(latitude) * Math.cos(longitude);
    y += Math.cos(latitude) * Math.sin(longitude);
    z += Math.sin(latitude);
  }
  if (Math.hypot(x, y, z) < 1e-9) return [0, 0];
  return [Math.atan2(z, Math.hypot(x, y)) / RADIANS, Math.atan2(y, x) / RADIANS];
}

/** `forward(latitude, longitude)` gives [x, y] in kilometres east and north of the middle; `inverse` goes back. */
export function projectionAbout([middleLatitude, middleLongitude]) {
  const sine = Math.sin(middleLatitude * RADIANS);
  const cosine = Math.cos(middleLatitude * RADIANS);
  return {
    forward(latitude, longitude) {
      const phi = latitude * RADIANS;
      const turn = (longitude - middleLongitude) * RADIANS;
      const near = 1 + sine * Math.sin(phi) + cosine * Math.cos(phi) * Math.cos(turn);
      const k = EARTH_KM * Math.sqrt(2 / Math.max(near, 1e-9)); // the far side of the earth stays finite
      return [
        k * Math.cos(phi) * Math.sin(turn),
        k * (cosine * Math.sin(phi) - sine * Math.cos(phi) * Math.cos(turn)),
      ];
    },
    inverse(x, y) {
      const rho = Math.hypot(x, y);
      if (rho < 1e-9) return [middleLatitude, middleLongitude];
      const angle = 2 * Math.asin(Math.min(1, rho / (2 * EARTH_KM)));
      const latitude = Math.asin(Math.cos(angle) * sine + (y * Math.sin(angle) * cosine) / rho) / RADIANS;
      const turn = Math.atan2(
        x * Math.sin(angle),
        rho * cosine * Math.cos(angle) - y * sine * Math.sin(angle),
      );
      return [latitude, wrapLongitude(middleLongitude + turn / RADIANS)];
    },
  };
}

/** A longitude between -180 and 180. */
export function wrapLongitude(longitude) {
  return ((((longitude + 180) % 360) + 360) % 360) - 180;
}

/** Kilometres along the great circle. */
export function distanceKm(latitudeA, longitudeA, latitudeB, longitudeB) {
  const north = Math.sin(((latitudeB - latitudeA) * RADIANS) / 2);
  const east = Math.sin(((longitudeB - longitudeA) * RADIANS) / 2);
  const half = north * north + Math.cos(latitudeA * RADIANS) * Math.cos(latitudeB * RADIANS) * east * east;
  return 2 * EARTH_KM * Math.asin(Math.min(1, Math.sqrt(half)));
}

/** The longest round length (1, 2 or 5 times a power of ten) that is no longer than `longest`. */
export function roundLength(longest) {
  const power = 10 ** Math.floor(Math.log10(longest));
  for (const digit of [5, 2]) if (digit * power <= longest * (1 + 1e-12)) return digit * power;
  return power;
}

/** A window on the flat map: its middle in kilometres and how many pixels a kilometre has. */
export function screenOf(view, width, height, x, y) {
  return [(x - view.x) * view.scale + width / 2, height / 2 - (y - view.y) * view.scale];
}

export function mapOf(view, width, height, left, top) {
  return [(left - width / 2) / view.scale + view.x, (height / 2 - top) / view.scale + view.y];
}

/** Pixels that the fitted window leaves free at its edges, for the legend below and the buttons at the right. */
export const MARGINS = { left: 28, right: 66, top: 30, bottom: 116 };

/** The smallest box around points as {left, right, bottom, top}, or null if there are none. */
export function boxOf(xs, ys) {
  const box = { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity };
  for (let i = 0; i < xs.length; i += 1) {
    if (Number.isNaN(xs[i])) continue;
    box.left = Math.min(box.left, xs[i]);
    box.right = Math.max(box.right, xs[i]);
    box.bottom = Math.min(box.bottom, ys[i]);
    box.top = Math.max(box.top, ys[i]);
  }
  return box.left <= box.right ? box : null;
}

/**
 * The box around most of the weight, or `whole` if that is not much larger: a few far places do not make the rest tiny.
 */
export function boxOfMost(xs, ys, weights, whole) {
  if (!whole) return null;
  const order = [...xs.keys()].filter((i) => !Number.isNaN(xs[i]) && weights[i] > 0);
  const all = order.reduce((sum, i) => sum + weights[i], 0);
  const ends = (values) => {
    const sorted = [...order].sort((a, b) => values[a] - values[b]);
    const at = (share) => {
      let passed = 0;
      return values[sorted.find((i) => (passed += weights[i]) >= share * all)];
    };
    const [low, high] = [at(FAR), at(1 - FAR)];
    return [low - 0.15 * (high - low), high + 0.15 * (high - low)];
  };
  if (!order.length) return whole;
  const [[left, right], [bottom, top]] = [ends(xs), ends(ys)];
  const larger = Math.max((whole.right - whole.left) / (right - left), (whole.top - whole.bottom) / (top - bottom));
  return larger > MUCH ? { left, right, bottom, top } : whole;
}

/** The window that shows a box between the margins; at least ten kilometres are shown. */
export function viewOfBox(box, width, height, margins = MARGINS) {
  if (!box) return { x: 0, y: 0, scale: 1 };
  const across = Math.max(width - margins.left - margins.right, 40);
  const down = Math.max(height - margins.top - margins.bottom, 40);
  const scale = Math.min(across / Math.max(box.right - box.left, 10), down / Math.max(box.top - box.bottom, 10));
  return {
    x: (box.left + box.right) / 2 + (margins.right - margins.left) / 2 / scale,
    y: (box.bottom + box.top) / 2 - (margins.bottom - margins.top) / 2 / scale,
    scale,
  };
}
