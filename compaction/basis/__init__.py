"""What a published verdict rests on: made when a day is judged, and made again by LISTs when a night looks at it."""
