# frozen_string_literal: true

# The floor is a C program (floor.c); run.rb compiles it before the first round.
%i[tcp unix].each do |transport|
  Bench.contestant "floor-#{transport}", label: "floor, C", role: :floor, transport: transport
end
