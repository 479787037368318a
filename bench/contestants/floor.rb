# frozen_string_literal: true

# The floor is a C program (floor.c). run.rb compiles it before the first round.
{ tcp: :port, unix: :socket }.each do |transport, place|
  Bench.contestant "floor-#{transport}",
                   label: "floor, C", role: :floor, transport: transport,
                   floor: ->(address) { [transport, address.public_send(place)] }
end
