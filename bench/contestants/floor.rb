# frozen_string_literal: true

# The floor: the fastest that a lock on one Redis could be. Bench::Floor compiles the C program that
# measures this speed (floor.c).
{ tcp: :port, unix: :socket }.each do |transport, place|
  Bench.contestant "floor-#{transport}",
                   label: "floor, C", role: :floor, transport: transport,
                   floor: ->(address) { [transport, address.public_send(place)] }
end
