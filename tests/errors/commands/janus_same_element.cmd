retrograd run janus_same_element.ja
