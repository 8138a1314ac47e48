// Finding places and areas by what somebody types.

/** An index over ids, names and areas. `find(text)` gives the best matches first: exact, then beginning, then within. */
export function makeSearch(world, most = 12) {
  let entries = null; // made when somebody searches, not while the page loads
  return {
    find(text) {
      const wanted = fold(text);
      if (!wanted) return [];
      entries ??= makeEntries(world);
      const ranked = [[], [], [], [], []]; // the last is for homes outside, where nobody of this map works
      for (const entry of entries) {
        const rank = Math.min(...entry.keys.map((key) => rankOf(key, wanted)));
        if (rank > 3) continue;
        const list = ranked[entry.away ? 4 : rank];
        if (list.length < most) list.push(entry);
      }
      return ranked.flat().slice(0, most);
    },
  };
}

function makeEntries({ places, levels, outlineNames = [] }) {
  const entries = [];
  outlineNames.forEach(({ text, rings }, number) => {
    if (rings.length) entries.push({ kind: "outline", value: number, label: text, note: "outline", keys: [fold(text)] });
  });
  levels.forEach((level, number) => {
    level.areas.forEach((area, code) => {
      if (!area || (number > 0 && level.isOnMap?.(code) === false)) return; // in no area; a state outside is listed once
      const name = level.names[code];
      const keys = name === area ? [fold(area)] : [fold(name), fold(area)];
      const away = level.isOnMap?.(code) === false;
      entries.push({ kind: "area", value: [number, code], label: name, note: away ? "homes outside" : level.name, keys, away });
    });
  });
  for (let place = 0; place < places.count; place += 1) {
    const [id, name] = [places.ids[place], places.names[place]];
    if (levels[0]?.isOnMap?.(levels[0].of[place]) === false) continue; // a home outside, which is listed as an area
    const keys = name ? [fold(name), fold(id)] : [fold(id)];
    entries.push({ kind: "place", value: place, label: name || id, note: name ? id : "place", keys });
  }
  return entries;
}

function rankOf(key, wanted) {
  if (key === wanted) return 0;
  if (key.startsWith(wanted)) return 1;
  const at = key.indexOf(wanted);
  if (at < 0) return 4;
  return /[\s\-,/]/.test(key[at - 1]) ? 2 : 3;
}

/** Without accents, capitals and outer blanks: "São Paulo" is found by "sao paulo". */
export function fold(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();
}
