"""The states of the United States by the code that begins the ids of their census blocks: homes outside a state.

Coordinates are about the middle of where people live, to a tenth of a degree or so. They only put homes outside in an
order of distance for the model; no distance is told of them.
"""

from __future__ import annotations

from typing import NamedTuple


class State(NamedTuple):
    """A state: what it is called, and roughly where its people live."""

    name: str
    latitude: float
    longitude: float


STATES = {
    "01": State("Alabama", 33.0, -86.8),
    "02": State("Alaska", 61.3, -148.8),
    "04": State("Arizona", 33.4, -111.8),
    "05": State("Arkansas", 35.1, -92.6),
    "06": State("California", 35.5, -119.4),
    "08": State("Colorado", 39.5, -105.2),
    "09": State("Connecticut", 41.5, -72.9),
    "10": State("Delaware", 39.4, -75.6),
    "11": State("District of Columbia", 38.9, -77.0),
    "12": State("Florida", 27.8, -81.6),
    "13": State("Georgia", 33.4, -83.9),
    "15": State("Hawaii", 21.1, -157.5),
    "16": State("Idaho", 44.2, -115.1),
    "17": State("Illinois", 41.3, -88.4),
    "18": State("Indiana", 40.2, -86.3),
    "19": State("Iowa", 42.0, -93.1),
    "20": State("Kansas", 38.5, -96.5),
    "21": State("Kentucky", 37.8, -85.3),
    "22": State("Louisiana", 30.7, -91.5),
    "23": State("Maine", 44.3, -69.7),
    "24": State("Maryland", 39.1, -76.8),
    "25": State("Massachusetts", 42.3, -71.4),
    "26": State("Michigan", 42.9, -84.2),
    "27": State("Minnesota", 45.2, -93.6),
    "28": State("Mississippi", 32.6, -89.6),
    "29": State("Missouri", 38.4, -92.2),
    "30": State("Montana", 46.8, -111.2),
    "31": State("Nebraska", 41.2, -97.4),
    "32": State("Nevada", 37.2, -116.3),
    "33": State("New Hampshire", 43.2, -71.5),
    "34": State("New Jersey", 40.4, -74.4),
    "35": State("New Mexico", 34.6, -106.3),
    "36": State("New York", 41.5, -74.6),
    "37": State("North Carolina", 35.6, -79.7),
    "38": State("North Dakota", 47.4, -99.3),
    "39": State("Ohio", 40.5, -82.7),
    "40": State("Oklahoma", 35.6, -96.8),
    "41": State("Oregon", 44.7, -122.6),
    "42": State("Pennsylvania", 40.5, -77.1),
    "44": State("Rhode Island", 41.8, -71.5),
    "45": State("South Carolina", 34.0, -81.0),
    "46": State("South Dakota", 44.0, -99.0),
    "47": State("Tennessee", 35.8, -86.4),
    "48": State("Texas", 30.9, -97.4),
    "49": State("Utah", 40.4, -111.9),
    "50": State("Vermont", 44.1, -72.8),
    "51": State("Virginia", 37.8, -77.8),
    "53": State("Washington", 47.3, -121.6),
    "54": State("West Virginia", 38.8, -80.8),
    "55": State("Wisconsin", 43.7, -89.0),
    "56": State("Wyoming", 42.7, -107.0),
    "60": State("American Samoa", -14.3, -170.7),
    "66": State("Guam", 13.4, 144.8),
    "69": State("Northern Mariana Islands", 15.2, 145.7),
    "72": State("Puerto Rico", 18.2, -66.4),
    "78": State("Virgin Islands", 18.0, -64.8),
}
